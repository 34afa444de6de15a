# SPDX-License-Identifier: Apache-2.0
"""A refusal is accepted only if a row of tools/conformance/impossible.toml describes it."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import parser
from opshift.codes.refusals import Why
from opshift.errors import RefusedNode
from opshift.opsets import schemas

from tools.conformance.impossible import Catalogue

INTEGERS = "integer arithmetic needs opset 6"
ROWS = """
[[impossible]]
operators = "Add Sub"
below = 6
types = "int64 uint64"

[[impossible]]
operators = "Reshape"
below = 5
computed = "shape"

[[impossible]]
operators = "Resize"
below = 18
attributes = { antialias = 1 }

[[impossible]]
operators = "Unique"
below = 11
says = "strings|slices"
"""


@pytest.fixture
def rows(tmp_path: Path) -> Catalogue:
    """A few rows of every kind."""
    (tmp_path / "rows.toml").write_text(ROWS)
    return Catalogue(tmp_path / "rows.toml")


def accepted(rows: Catalogue, body: str, op: str, below: int, says: str) -> bool:
    """Returns whether a refusal of `op` at the boundary to `below` is accepted."""
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["": 18]> g {body}')
    refusal = RefusedNode("n", op, "", (below, below - 1), Why.NOT_EXPRESSIBLE, says)
    return not rows.unexcused(model, [refusal])


@pytest.mark.parametrize(
    ("kind", "expected"), [("int64", True), ("uint64", True), ("int32", False), ("int8", False)]
)
def test_only_64_bits_excuse_arithmetic(rows: Catalogue, kind: str, expected: bool) -> None:
    body = f"({kind}[2] a, {kind}[2] b) => ({kind}[2] y) {{ y = Add(a, b) }}"
    assert accepted(rows, body, "Add", 6, INTEGERS) is expected


def test_a_computed_shape_is_accepted_and_a_constant_one_is_not(rows: Catalogue) -> None:
    says = "'s' must be constant, but 's' is an input"
    computed = "(float[2,2] x, int64[1] s) => (float[n] y) { y = Reshape(x, s) }"
    constant = "(float[2,2] x) => (float[4] y) <int64[1] s = {4}> { y = Reshape(x, s) }"
    assert accepted(rows, computed, "Reshape", 5, says)
    assert not accepted(rows, constant, "Reshape", 5, says)


@pytest.mark.parametrize(
    ("attributes", "expected"), [("<antialias=1>", True), ("<antialias=0>", False), ("", False)]
)
def test_an_absent_attribute_has_its_default(
    rows: Catalogue, attributes: str, expected: bool
) -> None:
    body = f"(float[4,4] x, float[2] s) => (float[a,b] y) {{ y = Resize{attributes}(x, , s) }}"
    assert accepted(rows, body, "Resize", 18, "the sizes are unknown") is expected


def test_boundary_and_text_have_to_match(rows: Catalogue) -> None:
    body, says = (
        "(string[2] x) => (string[n] y) { y = Unique(x) }",
        "Unique of strings is impossible",
    )
    assert accepted(rows, body, "Unique", 11, says)
    assert not accepted(rows, body, "Unique", 13, says)
    assert not accepted(rows, body, "Unique", 11, "the rank of 'x' is unknown")


def test_one_impossible_node_settles_a_model(rows: Catalogue) -> None:
    text = "(int64[2] a) => (int64[2] y) { y = Add(a, a) }"
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["": 18]> g {text}')
    open_one = RefusedNode("m", "Mul", "", (6, 5), Why.NEEDS_RANK, "the rank of 'x' is unknown")
    impossible = RefusedNode("n", "Add", "", (6, 5), Why.TYPE_NOT_AVAILABLE, INTEGERS)
    assert rows.unexcused(model, [open_one]) == (open_one,)
    assert rows.unexcused(model, [open_one, impossible]) == ()


def test_every_row_names_a_boundary_that_exists() -> None:
    catalogue = Catalogue()
    for entry in catalogue.impossible:
        for name in entry.row.operators - {"*"}:
            domain, _, op = name.rpartition(".")
            assert op in schemas.known().changed(domain, entry.below), (name, entry.below)
