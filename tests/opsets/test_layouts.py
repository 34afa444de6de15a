# SPDX-License-Identifier: Apache-2.0
"""An entry of the version database states an operator as its schema does."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest
from opshift import versions
from opshift.opsets import layouts, operator_set, schemas
from opshift.opsets.operator_set import Operator, OperatorSet
from opshift.opsets.schemas import Param, Schema

ALL = [
    schema
    for domain in versions.DOMAINS
    for op in schemas.operators(domain)
    for schema in schemas.history(domain, op)
    if any((schema.inputs, schema.outputs, schema.attributes)) and not schema.deprecated
]


def plain(one: Schema) -> Schema:
    """A schema without what an entry does not state: how often a variadic parameter occurs."""

    def param(one: Param) -> Param:
        return dataclasses.replace(one, homogeneous=one.homogeneous and not one.variadic)

    least = {"min_input": 0, "min_output": 0} if any(p.variadic for p in one.inputs) else {}
    least |= {"min_output": 0} if any(p.variadic for p in one.outputs) else {}
    return dataclasses.replace(
        one, open=True, inputs=tuple(map(param, one.inputs)),
        outputs=tuple(map(param, one.outputs)), **least,
    )  # fmt: skip


def test_an_entry_states_all_of_a_schema() -> None:
    assert len(ALL) > 300
    for one in ALL:
        read = layouts.of_entry(one.domain, one.since, Operator(one, "").change())
        assert plain(read) == plain(one), (one.name, one.since)


@pytest.mark.parametrize("domain", ["", "ai.onnx.ml"])
def test_a_layout_is_the_schema_if_there_is_one(domain: str) -> None:
    for op in schemas.operators(domain):
        for schema in schemas.history(domain, op):
            assert layouts.layout(domain, op, schema.since) is schemas.schema(
                domain, op, schema.since
            )


def test_an_operator_that_nothing_states_has_no_layout() -> None:
    assert layouts.layout("com.microsoft", "Unheard", 1) is None
    assert layouts.layout("com.acme", "Gelu", 1) is None
    assert layouts.layout("", "Unheard", 13) is None


def test_a_document_counts_more_than_the_shipped_entry(tmp_path: Path) -> None:
    """A document contains all operators of its domain, so nodes can be compared with it."""
    entry = layouts.layout("com.microsoft", "Gelu", 1)
    assert entry is not None
    own = dataclasses.replace(entry, open=False, attributes={})
    path = tmp_path / "vendor.onnxopset"
    path.write_bytes(operator_set.write(OperatorSet("com.microsoft", 1, (Operator(own, ""),))))
    code = (
        "from opshift.opsets import layouts, schemas\n"
        "print(layouts.layout('com.microsoft', 'Gelu', 1).open, *schemas.operators('com.microsoft'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "OPSHIFT_OPSETS": str(path)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["False", "Gelu"]
