# SPDX-License-Identifier: Apache-2.0
"""If an adapter writes a form of a later opset, opshift converts it to the target opset."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.parser import parse_function
from onnx.reference import ReferenceEvaluator
from opshift import AdapterBug, Refused, convert_version
from opshift.adapter import KEEP, Builder, Node, Refusal, Result, T, Why, adapter
from text_models import model, ops

GRID = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
ERF = "(float[2,3] x) => (float[p,q] y) { y = Erf(x) }"
MISH = "(float[2,3] x) => (float[2,3] y) { y = Mish(x) }"


def below_9(with_adapters, write, model_=ERF, **options):
    """A model at opset 8 in which `write` has replaced Erf."""

    def run(node: Node, op: Builder) -> Result:
        """A test's adapter."""
        return write(op, node["input"])

    with_adapters(adapter("Erf", 9, 8, **options)(run))
    return convert_version(model(model_, 9), 8)


def value(model_, x=GRID):
    (computed,) = ReferenceEvaluator(model_).run(None, {"x": x})
    return computed


@pytest.mark.parametrize(
    ("write", "written", "expected"),
    [
        (lambda op, x: op.Slice(x, op.const([1]), op.const([3]), op.const([1])), "Slice", GRID[:, 1:]),
        (lambda op, x: op.Squeeze(op.Unsqueeze(x, op.const([0])), op.const([0])), "Unsqueeze Squeeze", GRID),
        (lambda op, x: x - op.ReduceMax(x, op.const([1])), "ReduceMax Sub", GRID - GRID.max(1)[:, None]),
        (lambda op, x: op.Clip(x, max=op.const(0, like=x)), "Clip", GRID.clip(None, 0)),
        (lambda op, x: op.Pad(x, op.const([0, 1, 0, 0])), "Pad", np.pad(GRID, [(0, 0), (1, 0)])),
        (lambda op, x: op.HardSwish(x), "HardSigmoid Mul", GRID * np.clip(GRID / 6 + 0.5, 0, 1)),
        (lambda op, x: op.Mish(x), "Softplus Tanh Mul", GRID * np.tanh(np.log1p(np.exp(GRID)))),
        (lambda op, x: op.Cast(op.IsInf(x), to=T.FLOAT), None, np.zeros((2, 3))),
    ],
)  # fmt: skip
def test_a_node_of_a_later_opset_is_written_as_its_adapters_write_it(
    with_adapters, write, written, expected
):
    after = below_9(with_adapters, write)
    assert written is None or ops(after) == written
    np.testing.assert_allclose(value(after), expected, rtol=1e-6)


def test_a_form_that_the_opset_has_is_left_alone(with_adapters):
    after = below_9(with_adapters, lambda op, x: op.Slice(x, starts=[1], ends=[2]))
    assert ops(after) == "Slice"
    assert len(after.graph.node[0].attribute) == 2


def test_constants_are_folded_at_once(with_adapters):
    def write(op, x):
        rows = op.Range(op.const(0), op.const(4), op.const(2))
        return op.Gather(x, op.Slice(rows, op.const([0]), op.const([1])), axis=1)

    after = below_9(with_adapters, write)
    assert ops(after) == "Gather"
    assert (value(after) == GRID[:, :1]).all()


def test_the_facts_about_written_values_are_known_on_the_way_down(with_adapters):
    def write(op, x):
        twice = x + x
        return op.Slice(twice, op.const([-1]), op.const([2**63 - 1]), op.const([-2])) * 3

    after = below_9(with_adapters, write)
    assert ops(after) == "Add Slice Mul"
    assert (value(after) == GRID[1:] * 6).all()


def test_a_subgraph_is_written_at_the_opset_of_the_model(with_adapters):
    def write(op, x):
        one = op.const(True, T.BOOL)
        cut = op.graph(lambda b: b.Slice(x, b.const([0]), b.const([2])))
        return op.If(one, then_branch=cut, else_branch=op.graph(lambda b: b.Identity(x)))

    after = below_9(with_adapters, write)
    (branch,) = (a.g for a in after.graph.node[0].attribute if a.name == "then_branch")
    assert [len(node.input) for node in branch.node] == [1]
    assert (value(after) == GRID).all()


def test_constants_of_a_function_are_known_and_leave_no_node(with_adapters):
    def write(op, x):
        cut = op.Slice(x, op.const([1]), op.const([3]), op.const([1]))
        inner = op.graph(lambda b: b.Slice(cut, b.const([0]), b.const([2])))
        other = op.graph(lambda b: b.Identity(cut))
        return op.If(op.const(True, T.BOOL), then_branch=inner, else_branch=other)

    def run(node: Node, op: Builder) -> Result:
        """A test's adapter."""
        return write(op, node["input"])

    with_adapters(adapter("Erf", 9, 8)(run))
    body = '<opset_import: ["" : 9], domain: "own"> f (x) => (y) { y = Erf(x) }'
    text = "(float[2,3] x) => (float[p,q] y) { y = own.f(x) }"
    before = model(text, 9, more=', "own" : 1')
    before.functions.append(parse_function(body))
    after = convert_version(before, 8)
    function = after.functions[0]
    assert [node.op_type for node in function.node] == ["Slice", "Constant", "Cast", "If"]
    (branch,) = (a.g for a in function.node[-1].attribute if a.name == "then_branch")
    assert [node.op_type for node in branch.node] == ["Slice"]
    assert [len(node.input) for node in (function.node[0], *branch.node)] == [1, 1]
    assert (value(after) == GRID[:, 1:]).all()


def test_several_outputs_come_down(with_adapters):
    def write(op, x):
        values, _ = op.TopK(x, op.const([1]), axis=-1, largest=1, outputs=2)
        return values

    after = below_9(with_adapters, write)
    assert ops(after) == "TopK"
    assert (value(after) == GRID[:, 2:]).all()


def test_what_a_later_operator_cannot_do_refuses_the_node(with_adapters):
    def write(op, x):
        return op.StringNormalizer(x)

    with pytest.raises(Refused) as caught:
        below_9(with_adapters, write)
    assert [refusal.op for refusal in caught.value.refusals] == ["Erf"]
    assert caught.value.refusals[0].why is Why.NOT_EXPRESSIBLE


def test_approximations_on_the_way_down_are_named(with_adapters):
    def close(node: Node, op: Builder) -> Result:
        """A test's adapter."""
        op.approximate("a test rounds")
        return op.Exp(node["X"])

    with_adapters(adapter("Mish", 18, 17, approximate=True)(close))
    with pytest.raises(Refused) as caught:
        below_9(with_adapters, lambda op, x: op.Mish(x), approximate=True)
    assert caught.value.refusals[0].why is Why.APPROXIMATE_ONLY


def mistake(with_adapters, write):
    with pytest.raises(AdapterBug) as caught:
        below_9(with_adapters, write)
    return str(caught.value)


def test_a_replacement_that_needs_itself_is_a_bug_of_its_adapter(with_adapters):
    def again(node: Node, op: Builder) -> Result:
        """A test's adapter."""
        return op.Mish(node["X"])

    with_adapters(adapter("Mish", 18, 17)(again))
    told = mistake(with_adapters, lambda op, x: op.Mish(x))
    assert "the replacement of Mish-18 at opset 17 contains Mish again" in told
    assert "on Erf 'y': test_convert_down.run at " in told


def test_an_operator_that_no_verdict_leads_down_is_a_bug_of_its_adapter(with_adapters):
    from opshift.author import registry

    with_adapters()
    del registry.default()._verdicts["", "Mish", 18, 17]
    told = mistake(with_adapters, lambda op, x: op.Mish(x))
    assert told.endswith("no adapter converts Mish from 18 to 17")
    assert "on Erf 'y': test_convert_down.run at " in told


def test_a_later_operator_that_is_kept_is_a_bug_of_its_adapter(with_adapters):
    def keep(node: Node, op: Builder) -> Result:
        """A test's adapter."""
        return KEEP

    with_adapters(adapter("Mish", 18, 17)(keep))
    assert "the adapter keeps Mish-18 at a version below 18" in mistake(
        with_adapters, lambda op, x: op.Mish(x)
    )


def test_a_replacement_without_an_output_is_a_bug_of_its_adapter(with_adapters):
    def short(node: Node, op: Builder) -> Result:
        """A test's adapter."""
        return op.Neg(node["X"])

    with_adapters(adapter("TopK", 11, 10, ignores={"K": "a test"})(short))
    told = mistake(with_adapters, lambda op, x: op.TopK(x, op.const([1]), largest=1, outputs=2))
    assert "the replacement of TopK-11 below opset 11 lacks an output" in told


def test_a_refusal_on_the_way_down_may_be_caught(with_adapters):
    def write(op, x):
        try:
            return op.StringNormalizer(x)
        except Refusal:
            return op.Neg(x)

    assert ops(below_9(with_adapters, write)) == "Neg"


@pytest.mark.parametrize(("start", "to"), [(18, 17), (18, 12)])
def test_a_function_body_is_converted_node_by_node(with_adapters, start, to):
    def run(node: Node, op: Builder) -> Result:
        """A test's adapter."""
        return op.expand(node)

    with_adapters(adapter("Mish", 18, 17)(run))
    after = convert_version(model(MISH, start), to)
    assert ops(after) == "Softplus Tanh Mul"
    np.testing.assert_allclose(value(after), value(model(MISH, 18)), rtol=1e-6)


def test_a_function_body_is_converted_up(with_adapters):
    def run(node: Node, op: Builder) -> Result:
        """A test's adapter."""
        return op.expand(node)

    with_adapters(adapter("SoftmaxCrossEntropyLoss", 12, 13)(run))
    text = """(float[2,3,2] x) => (float y) <int64[2,2] t = {0, 2, 1, 1}>
        { y = SoftmaxCrossEntropyLoss(x, t) }"""
    after = convert_version(model(text, 12), 13)
    assert "LogSoftmax" in ops(after)
    x = np.arange(12, dtype=np.float32).reshape(2, 3, 2) / 5
    np.testing.assert_allclose(value(after, x), value(model(text, 12), x), rtol=1e-6)
