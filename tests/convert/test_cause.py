# SPDX-License-Identifier: Apache-2.0
"""The values of the source model on which a node depends; names of the conversion begin with `_`."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from checked import checked
from opshift.convert.legal import cause
from text_models import model

FRESH = SimpleNamespace(is_fresh=lambda name: name.startswith("_"))


def sources(text: str, at: int, scope: int = 0, more: str = "") -> str | None:
    """The names on which the node at a position depends, sorted."""
    scopes = [*checked(model(text, 13, more=more)).document.scopes()]
    found = cause.sources(FRESH, (scopes[scope], at))
    return None if found is None else " ".join(sorted(found))


@pytest.mark.parametrize(
    ("nodes", "at", "expected"),
    [
        ("a = Neg(x) y = Abs(a)", 0, "a x"),
        ("a = Neg(x) y = Abs(a)", 1, "a y"),
        ("a = Neg(x) _b = Abs(a) y = Add(_b, w)", 2, "a w y"),
        ("a = Neg(x) _b = Abs(a) _c = Abs(_b) y = Add(_c, _c)", 3, "a y"),
        ("_b = Neg(x) _c = Abs(_b) y = Add(_c, w)", 0, "x y"),
        ("_b = Neg(x) y = Abs(_b) z = Abs(y)", 0, "x y"),
        ("_b = Neg(x) y, _c = Op(_b) z = Abs(_c)", 0, "x y z"),
        ("_b = Neg(_loop) _loop = Neg(_b) y = Abs(_b)", 2, "y"),
        ('y = Clip(x, "", w)', 0, "w x y"),
        ("_n = Neg(_absent) y = Neg(_n)", 1, "y"),
    ],
)
def test_names_of_the_conversion_lead_to_those_of_the_source_model(nodes, at, expected):
    assert sources(f"(float[2] x, float[2] w) => (float[2] y) {{ {nodes} }}", at) == expected


def test_a_node_of_a_graph_inside_stands_for_the_node_that_holds_it():
    text = """(float[2] x, bool c) => (float[2] y) { a = Neg(x)
        y = If(c) <then_branch = t () => (float[2] p) { p = Abs(a) },
            else_branch = e () => (float[2] q) { q = If(c)
                <then_branch = u () => (float[2] r) { r = Neg(x) },
                 else_branch = v () => (float[2] s) { s = Neg(x) }> }> }"""
    assert sources(text, 0, 1) == sources(text, 1) == "a c x y"
    assert sources(text, 0, 3) == "a c x y"


def test_there_are_no_names_of_the_source_model_in_a_function():
    text = """(float[2] x) => (float[2] y) { y = f.F(x) }
        <domain: "f", opset_import: ["": 13]> F (a) => (b) { b = Neg(a) }"""
    assert sources(text, 0, 1, ', "f": 1') is None
    assert sources(text, 0, 0, ', "f": 1') == "x y"
