# SPDX-License-Identifier: Apache-2.0
"""The rules for ranks: their words, and conversions that need the ranks."""

from __future__ import annotations

import re

import onnx.parser
import opshift
import pytest
from onnx import onnx_operators_ml_pb2
from opshift.opsets import changelog, described, layouts, operator_set
from opshift.opsets.output_rank import output_rank

RANKS = {"A": 2, "B": 3, "V": 1}


@pytest.mark.parametrize(
    ("rule", "rank"),
    [
        ("4", 4), ("B", 3), ("A + 1", 3), ("max A B", 3), ("max V A", 2), ("A @ B", 3),
        ("A @ V", None),
    ],
)  # fmt: skip
def test_a_rule_gives_a_rank(rule, rank):
    assert output_rank(rule, RANKS.__getitem__) == rank


@pytest.mark.parametrize(
    "rule", ["A + A", "A +", "A + B", "A - 1", "max A", "A @ B @ A", "min A B"]
)
def test_other_words_are_not_a_rule(rule):
    with pytest.raises(ValueError, match=re.escape(rule)):
        output_rank(rule, RANKS.__getitem__)


RULES = ["2", "X", "Z + 1", "max X Z", "X @ Z"]


def document(rule: str) -> bytes:
    """An operator set with one operator, which states this rank or none."""
    stated = f", rank {rule}" if rule else ""
    text = f"Runs.\n\nSignature:\n  T: tensor(float)\n  input X: T\n  input Z: T\n  output Y: T{stated}"
    proto = onnx_operators_ml_pb2.OperatorSetProto(
        magic="ONNXOPSET", ir_version=8, domain="com.acme", opset_version=1
    )
    proto.operator.add(op_type="Run", since_version=1, status=1, doc_string=text)
    return proto.SerializeToString()


@pytest.mark.parametrize("rule", ["", *RULES])
def test_a_rule_stays_in_a_document_and_in_a_database(rule):
    operator_set_ = operator_set.read(document(rule), "acme")
    assert operator_set.read(operator_set.write(operator_set_), "again") == operator_set_
    (operator,) = operator_set_.operators
    entry = layouts.of_entry("com.acme", 1, operator.change())
    assert entry.outputs == operator.schema.outputs
    assert entry.outputs[0].rank == rule
    details = changelog.Details(operator.change())
    assert details.as_dict()["outputs"][0].get("rank", "") == rule
    assert (f"output Y: T, rank {rule}" in [*details.lines()]) == bool(rule)


MODEL = """<ir_version: 8, opset_import: ["": 13, "com.acme": 1]>
    g (float[2,3] x, float[1,2] z) => (float y) { r = com.acme.Run(x, z) y = Softmax<axis=1>(r) }"""


@pytest.mark.parametrize(("rule", "rank"), [*zip(["", *RULES], [None, 2, 2, 3, 2, 2], strict=True)])
def test_a_stated_rank_is_inferred(rule, rank):
    """Softmax is the same in opset 12 only along the last axis, so the rank decides."""
    with described.using([("acme", document(rule))]):
        after = opshift.convert_version(onnx.parser.parse_model(MODEL), 12)
    operators = [node.op_type for node in after.graph.node]
    assert (operators == ["Run", "Softmax"]) == (rank == 2)
