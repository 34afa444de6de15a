"""The graphs for training are compared too."""

from __future__ import annotations

import onnx.parser
from onnx import ModelProto
from opshift import convert_version
from opshift.testing.text import parse_model
from opshift.verify import verify

TEXT = """<ir_version: 8, opset_import: ["" : 12]> g (float[2,3,4] x) => (float[2,3,4] y)
    <float[4] w = {1,2,3,4}> { y = Add(x, w) }"""
STEP = "step () => (float[2,3,4] new) { z = Softmax<axis = 1>(y) new = Mul(z, w) }"
FIRST = "first () => (float[4] start) { start = Constant<value = float[4] {1,1,1,1}>() }"


def trained(step: str = STEP, first: str = FIRST) -> ModelProto:
    made = parse_model(TEXT)
    training = made.training_info.add()
    training.algorithm.CopyFrom(onnx.parser.parse_graph(step))
    training.initialization.CopyFrom(onnx.parser.parse_graph(first))
    return made


def test_a_converted_algorithm_is_shown_to_be_equal():
    before = trained()
    found = verify(before, convert_version(before, 13))
    assert found.equal
    compared = {row.inputs.split(":")[0] for row in found.rows}
    assert {"training_info[0].algorithm", "training_info[0].initialization"} <= compared


def test_another_algorithm_is_a_difference():
    found = verify(trained(), trained(STEP.replace("Mul", "Add")))
    assert found.different
    (row,) = {row.output for row in found.rows if row.outcome == "different"}
    assert row == "new"


def test_another_initialization_is_a_difference():
    assert verify(trained(), trained(first=FIRST.replace("{1,1,1,1}", "{1,1,1,2}"))).different


def test_what_no_engine_runs_is_named():
    before = trained()
    before.opset_import.add(domain="ai.onnx.preview.training", version=1)
    node = before.training_info[0].algorithm.node.add(op_type="Gradient", input=["x"])
    node.domain = "ai.onnx.preview.training"
    found = verify(before, before)
    assert found.equal
    assert [note for note in found.notes if note.startswith("training_info[0].algorithm is not")]


def test_training_that_the_second_model_lacks_is_named():
    other = trained()
    other.ClearField("training_info")
    found = verify(trained(), other)
    assert found.equal
    assert sum("B does not have it" in note for note in found.notes) == 2
