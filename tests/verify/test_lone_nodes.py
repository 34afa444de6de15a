# SPDX-License-Identifier: Apache-2.0
"""Each node that a runtime rejects, or computes differently, is found by running it alone."""

from __future__ import annotations

from opshift.author import registry
from opshift.child_task import Limits
from opshift.model import weights
from opshift.verify import lone_nodes, oracle
from opshift.verify.lone_nodes import failing
from opshift.verify.other_runtime import RAN, Answer
from text_models import model

TEXT = """(float[2,3] x, float[2,3] u) => (float[2,3] y) <float[3] w = {1, 2, 3}> {
    a = Neg(x) b = Neg(u) c = Add(a, w) d = Selu(b) e = Mul(c, d) y = Softsign(e) }"""


class Runtime:
    """Computes by the reference, except for some operators."""

    def __init__(self, refused=(), wrong=()):
        self.refused, self.wrong, self.models = refused, wrong, []

    def run_models(self, models, limits):
        self.models += [one for one, _ in models]
        return [self._answer(one, inputs) for one, inputs in models]

    def _answer(self, one, inputs):
        (node,) = one.graph.node
        if node.op_type in self.refused:
            return Answer("refused", [(None, "no such operator")])
        values = oracle.evaluate(one, inputs)
        if node.op_type in self.wrong:
            values = [value + 1 for value in values]
        names = [info.name for info in one.graph.output]
        return Answer(RAN, [(dict(zip(names, values, strict=True)), "")])


def found(runtime, text=TEXT):
    return failing(*weights.carve_model(model(text, 18)), runtime, Limits(), registry.default())


def test_a_runtime_that_computes_all_nodes_lacks_none():
    assert found(Runtime()) == frozenset()


def test_refused_nodes_and_other_numbers_are_found():
    assert found(Runtime(refused=["Selu"], wrong=["Add"])) == {"Selu", "Add"}


def test_equal_nodes_are_tried_once_and_constants_are_kept():
    runtime = Runtime()
    found(runtime)
    ops = [model.graph.node[0].op_type for model in runtime.models]
    assert sorted(ops) == ["Add", "Mul", "Neg", "Selu", "Softsign"]
    (added,) = [model for model in runtime.models if model.graph.node[0].op_type == "Add"]
    assert [tensor.name for tensor in added.graph.initializer] == ["w"]


def test_a_node_without_known_types_is_not_tried():
    runtime = Runtime()
    text = "(float[2,3] x) => (float[2,3] y) { v = acme.Own(x) y = Neg(v) }"
    proto = model(text, 18, more=', "acme" : 1')
    skeleton, large_tensors = weights.carve_model(proto)
    assert failing(skeleton, large_tensors, runtime, Limits(), registry.default()) == frozenset()
    assert runtime.models == []


def test_only_nodes_that_the_reference_does_not_compute_are_left_out(monkeypatch):
    evaluate, runtime = oracle.evaluate, Runtime()

    def evaluated(proto, inputs):
        if proto.graph.node[0].op_type == "Selu":
            raise oracle.OracleError("no meaning")
        return evaluate(proto, inputs)

    monkeypatch.setattr(lone_nodes.oracle, "evaluate", evaluated)
    assert found(runtime) == frozenset()
    assert sorted(model.graph.node[0].op_type for model in runtime.models) == [
        "Add", "Mul", "Neg", "Softsign",
    ]  # fmt: skip
