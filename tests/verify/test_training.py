# SPDX-License-Identifier: Apache-2.0
"""The graphs for training are compared too."""

from __future__ import annotations

import onnx.parser
import pytest
from onnx import ModelProto
from opshift import convert_version
from opshift.testing.model_text import parse_model
from opshift.verify import verify

pytestmark = pytest.mark.usefixtures("models_run_here")

TEXT = """<ir_version: 8, opset_import: ["" : 12]> g (float[2,3,4] x) => (float[2,3,4] y)
    <float[4] w = {1,2,3,4}> { y = Add(x, w) }"""
STEP = "step () => (float[2,3,4] new) { z = Softmax<axis = 1>(y) new = Mul(z, w) }"
FIRST = "first () => (float[4] start) { start = Constant<value = float[4] {1,1,1,1}>() }"


def trained(step: str = STEP, first: str = FIRST) -> ModelProto:
    proto = parse_model(TEXT)
    training = proto.training_info.add()
    training.algorithm.CopyFrom(onnx.parser.parse_graph(step))
    training.initialization.CopyFrom(onnx.parser.parse_graph(first))
    return proto


def test_a_converted_algorithm_is_shown_to_be_equal():
    before = trained()
    verification = verify(before, convert_version(before, 13))
    assert verification.equal
    compared = {row.inputs.split(":")[0] for row in verification.rows}
    assert {"training_info[0].algorithm", "training_info[0].initialization"} <= compared


def test_another_algorithm_is_a_difference():
    verification = verify(trained(), trained(STEP.replace("Mul", "Add")))
    assert verification.different
    (row,) = {row.output for row in verification.rows if row.outcome == "different"}
    assert row == "new"


def test_another_initialization_is_a_difference():
    assert verify(trained(), trained(first=FIRST.replace("{1,1,1,1}", "{1,1,1,2}"))).different


def test_what_no_engine_runs_is_named():
    before = trained()
    before.opset_import.add(domain="ai.onnx.preview.training", version=1)
    node = before.training_info[0].algorithm.node.add(op_type="Gradient", input=["x"])
    node.domain = "ai.onnx.preview.training"
    verification = verify(before, before)
    assert verification.equal
    assert [
        note for note in verification.notes if note.startswith("training_info[0].algorithm is not")
    ]
    assert not [row for row in verification.rows if row.inputs.startswith("after one")]


LEARN = """<ir_version: 8, opset_import: ["" : 12, "ai.onnx.preview.training" : 1]>
    g (float[2,3,4] x) => (float[2,3,4] y) <float[4] w = {1,2,3,4}, float[4] h = {0,0,0,0}> { y = Softmax<axis = 1>(x_w) x_w = Mul(x, w) }"""
DESCENT = """step () => (float[4] w_new, float[4] h_new) <float rate = {0.1}, int64 count = {0}> {
    slope = ReduceSum<axes = [0, 1], keepdims = 0>(y)
    w_new, h_new = ai.onnx.preview.training.Adagrad<epsilon = 0.001>(rate, count, w, slope, h) }"""
RANDOM = "first () => (float[4] start) { start = RandomNormal<shape = [4], mean = 1.0>() }"


def learning(first: str = FIRST, step: str = DESCENT) -> ModelProto:
    proto = parse_model(LEARN)
    nodes = [proto.graph.node[1], proto.graph.node[0]]
    sorted_nodes = [type(node).FromString(node.SerializeToString()) for node in nodes]
    del proto.graph.node[:]
    proto.graph.node.extend(sorted_nodes)
    training = proto.training_info.add()
    training.algorithm.CopyFrom(onnx.parser.parse_graph(step))
    training.initialization.CopyFrom(onnx.parser.parse_graph(first))
    training.initialization_binding.add(key="w", value="start")
    for name in ("w", "h"):
        training.update_binding.add(key=name, value=f"{name}_new")
    return proto


def steps(found) -> dict[str, set[str]]:
    told: dict[str, set[str]] = {}
    for row in found.rows:
        told.setdefault(row.inputs.partition(":")[0], set()).add(row.outcome)
    return told


@pytest.mark.parametrize("first", [FIRST, RANDOM])
@pytest.mark.parametrize("to", [11, 13, 18])
def test_one_step_of_training_is_run_on_both_sides(first, to):
    """Only this test runs the training graphs of a result."""
    before = learning(first)
    after = convert_version(before, to)
    for field in ("initialization_binding", "update_binding"):
        pairs = [
            [(e.key, e.value) for e in getattr(m.training_info[0], field)] for m in (before, after)
        ]
        assert pairs[0] == pairs[1]
    verification = verify(before, after)
    assert verification.equal, verification
    assert steps(verification)["after one training step"] == {"equal"}
    assert {"training_info[0].initialization", "training_info[0].algorithm"} <= steps(
        verification
    ).keys()


def test_what_only_the_trained_model_shows_is_a_difference():
    """Other initial values change the result of a training step, and so the trained model."""
    other = learning(FIRST.replace("{1,1,1,1}", "{3,1,1,1}"))
    told = steps(verify(learning(), other))
    assert "different" in told["training_info[0].initialization"]
    assert "different" in told["after one training step"]


def test_a_binding_that_is_gone_is_a_difference():
    other = learning()
    del other.training_info[0].update_binding[1]
    verification = verify(learning(), other)
    assert verification.different
    (row,) = (row for row in verification.rows if row.inputs.endswith("bindings"))
    assert row.detail == "training sets a value in only one of the models: 'h'"


def test_training_that_the_second_model_lacks_is_named():
    other = trained()
    other.ClearField("training_info")
    verification = verify(trained(), other)
    assert verification.equal
    assert sum("B has no such graph" in note for note in verification.notes) == 2
