# SPDX-License-Identifier: Apache-2.0
"""Stepping: atomic per boundary, boundary by boundary, idle where nothing changes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from opshift import convert_file, convert_version
from opshift.adapter import impossible
from opshift.author import registry
from opshift.convert import planner
from opshift.convert.attempt import Conversion
from opshift.convert.blockers import StepRefused
from opshift.convert.request import Request
from opshift.convert.step import Stepper
from opshift.model import weights
from text_models import model, ops

REFUSING = """(float[2,3,4] x) => (float[2,3,4] z) {
    y = Softmax<axis=1>(x)
    z = Erf(y)
}"""


def opened(text, opset, target):
    attempt = Conversion(
        *weights.carve_model(model(text, opset)), Request(target), registry.default()
    )
    attempt.open()
    return attempt


def test_a_step_that_refuses_has_changed_nothing(with_adapters):
    with_adapters(impossible("Erf", 13, 12, "it is a test", cases=[]))
    attempt = opened(REFUSING, 13, 12)
    before = attempt.skeleton.SerializeToString(deterministic=True)
    crossings = planner.of_document(attempt.document, registry.default(), {"": 12})
    stepper = Stepper(attempt.document, attempt.facts, crossings, "", 13, 12, False)
    with pytest.raises(StepRefused):
        stepper.run()
    assert attempt.skeleton.SerializeToString(deterministic=True) == before


def test_every_boundary_is_a_step_and_says_so():
    attempt = opened("(float[2,3] x) => (float[2,3] y) { y = Softmax<axis=1>(x) }", 9, 14)
    report = attempt.run()
    assert [(s.start, s.to) for s in report.steps] == [
        (9, 10),
        (10, 11),
        (11, 12),
        (12, 13),
        (13, 14),
    ]
    assert [s.start for s in report.steps if s.rewritten] == [12]


def test_a_boundary_without_work_looks_at_no_node(monkeypatch):
    visited = []
    original = Stepper._change

    def spy(self, place, adapter, key):
        visited.append((self.start, key))
        return original(self, place, adapter, key)

    monkeypatch.setattr(Stepper, "_change", spy)
    text = "(float[2,3] x) => (float[2,3] y) { a = Relu(x) b = Add(a, a) y = Selu(b) }"
    convert_version(model(text, 13), 22)
    assert visited == [], "floats cross every widening without a look"


def test_a_lost_type_makes_a_boundary_look(monkeypatch):
    text = "(int8[2] x) => (int8[2] y) { y = Relu(x) }"
    after = convert_version(model(text, 14), 13)
    onnx.checker.check_model(after, full_check=True)


def test_the_order_of_the_nodes_is_kept_around_what_is_written():
    text = """(float[2,3,4] x) => (float[2,3,4] y) {
        a = Neg(x) b = Softmax(a) c = Neg(b) d = Softmax(c) y = Neg(d) }"""
    after = convert_version(model(text), 13)
    soft = "Flatten Softmax Shape Reshape"
    assert ops(after) == f"Neg {soft} Neg {soft} Neg"


def test_sorting_asks_for_the_keys_in_order_and_moves_nothing_else():
    """Scope.sort hands the keys out one by one: this is what it relies on."""
    made = model("(float[2] x) => (float[2] y) { a = Neg(x) b = Neg(a) y = Neg(b) }")
    keys = iter([2, 0, 1])
    names = [node.output[0] for node in made.graph.node]
    made.graph.node.sort(key=lambda node: next(keys))
    assert [node.output[0] for node in made.graph.node] == [names[1], names[2], names[0]]


def test_node_names_stay_different_when_nodes_are_called_like_their_outputs():
    made = model("(float[2,3,4] x) => (float[2,3,4] y) { a = Softmax(x) y = Softmax(a) }")
    for node in made.graph.node:
        node.name = node.output[0]
    names = [node.name for node in convert_version(made, 13).graph.node]
    assert len(set(names)) == len(names) == 8
    assert {"a", "y"} < set(names)


def test_a_large_constant_crosses_the_boundaries_of_constant(tmp_path):
    value = np.arange(5000, dtype=np.float32)
    made = model("(float[5000] x) => (float[5000] y) { y = Add(x, w) }", 13)
    node = onnx.helper.make_node("Constant", [], ["w"], value=onnx.numpy_helper.from_array(value))
    made.graph.node.insert(0, node)
    after = convert_version(made, 9)
    onnx.save(made, tmp_path / "in.onnx")
    convert_file(tmp_path / "in.onnx", tmp_path / "out.onnx", 9)
    for result in (after, onnx.load(tmp_path / "out.onnx")):
        onnx.checker.check_model(result, full_check=True)
        kept = result.graph.node[0].attribute[0].t
        assert np.array_equal(onnx.numpy_helper.to_array(kept), value)


def test_a_constant_that_shares_its_name_gives_it_up_when_it_becomes_another_operator():
    text = "(int64[2] x) => (int64[2] y) { k = Constant<value = int64[2] {1, 2}>() y = Add(x, k) }"
    made = model(text, 9)
    for node in made.graph.node:
        node.name = "both"
    names = [node.name for node in convert_version(made, 8).graph.node]
    assert len(set(names)) == len(names)
    assert names[-1] == "both"
