# SPDX-License-Identifier: Apache-2.0
"""The harness accepts correct adapters, and rejects wrong ones with one message."""

from __future__ import annotations

import dataclasses
from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto
from opshift import Why, testing
from opshift.author import registry
from opshift.author.example import Example
from opshift.author.traits import Fold
from opshift.author.verdicts import Adapter
from opshift.opsets import schemas

SOFTMAX = '<ir_version: 8, opset_import: ["" : 12]> g (float[n,3,2] x) => (float[n,3,2] y) { y = Softmax(x) }'


def version(model):
    return model.opset_import[0].version


def test_an_operator_goes_up_from_its_first_version():
    shapes = {"input_shapes": [(3, 4, 5), (4, 5)]}
    old = {"attrs": {"broadcast": 1, "axis": 1}}
    with pytest.raises(AssertionError, match="give output_shapes="):
        testing.assert_op_upgrades("Add", 1, **old, input_shapes=[("n", 4, 5), (4, 5)])
    after = testing.assert_op_upgrades("Add", 1, **old, **shapes)
    assert version(after) == registry.schemas.latest("")
    assert version(testing.assert_op_upgrades("Add", 7, to=13, **shapes)) == 13


@pytest.mark.skipif((registry.schemas.latest("") or 0) < 28, reason="SwiGLU is of opset 28")
def test_an_operator_that_is_new_in_the_newest_opset_goes_up():
    after = testing.assert_op_upgrades("SwiGLU", 28, input_shapes=[(2, 3), (2, 3)], to=28)
    assert version(after) == 28


@pytest.mark.parametrize("assertion", [testing.assert_op_upgrades, testing.assert_op_downgrades])
@pytest.mark.parametrize(
    ("op", "told"),
    [
        ("NoSuch", "ai.onnx has no operator 'NoSuch'"),
        ("relu", "ai.onnx has no operator 'relu'; did you mean Relu, "),
    ],
)
def test_an_operator_that_does_not_exist_fails_with_one_sentence(assertion, op, told):
    with pytest.raises(AssertionError) as failed:
        assertion(op, 13)
    assert str(failed.value).startswith(told)
    assert "\n" not in str(failed.value)


@pytest.mark.parametrize(
    ("op", "since", "told"),
    [
        pytest.param(
            "CumProd",
            13,
            "ai.onnx 13 has no CumProd, which exists from 26 on",
            marks=pytest.mark.skipif((schemas.latest("") or 0) < 26, reason="onnx is too old"),
        ),
        ("Scatter", 11, "ai.onnx 11 has no Scatter, which version 11 deprecated"),
        ("Upsample", 12, "ai.onnx 12 has no Upsample, which version 10 deprecated"),
        ("Relu", 0, "ai.onnx has the versions 1 to "),
        ("Relu", 999, "ai.onnx has the versions 1 to "),
    ],
)
def test_an_operator_that_a_version_does_not_have_fails_with_one_sentence(op, since, told):
    with pytest.raises(AssertionError) as failed:
        testing.assert_op_upgrades(op, since)
    assert str(failed.value).startswith(told)


def test_an_operator_comes_down_from_the_newest_version():
    after = testing.assert_op_downgrades("Softmax", 9, attrs={"axis": 1})
    assert version(after) == 9


def test_constants_absent_inputs_and_types():
    axes = np.array([1], np.int64)
    how = {"input_shapes": [(2, 1, 3), (1,)], "constants": {1: axes}}
    after = testing.assert_op_downgrades("Squeeze", 11, gives="Squeeze", **how)
    assert after.graph.node[0].attribute[0].ints == [1]
    clip = {"input_shapes": [(4,), None, ()], "constants": {2: np.array(1, np.float32)}}
    testing.assert_op_upgrades("Clip", 11, **clip)
    half = {"input_types": [TensorProto.FLOAT16] * 2}
    testing.assert_op_upgrades("Mul", 7, input_shapes=[(2,), (2,)], **half)


def test_a_model():
    testing.assert_model_converts(SOFTMAX, 13, gives="Flatten Softmax Shape Reshape")
    with pytest.raises(
        AssertionError, match="has the operators 'Flatten Softmax Shape Reshape', not 'Relu'"
    ):
        testing.assert_model_converts(SOFTMAX, 13, gives="Relu")
    wrong = iter([np.ones(1), np.zeros(1)])
    with pytest.raises(AssertionError, match="the results differ: output 0"):
        testing.assert_model_converts(SOFTMAX, 13, evaluate=lambda model, inputs: [next(wrong)])


def test_a_refusal():
    text = SOFTMAX.replace("12", "13").replace("Softmax(x)", "Erf(x)").replace("float", "double")
    assert testing.assert_refused(text, 8, why=Why.APPROXIMATE_ONLY).nearest == {"": 9}
    with pytest.raises(AssertionError, match="refused for other reasons"):
        testing.assert_refused(text, 8, why=Why.NEEDS_RANK)
    with pytest.raises(AssertionError, match="but a refusal was expected"):
        testing.assert_refused(SOFTMAX, 13)
    with pytest.raises(AssertionError, match="refused: Cannot convert to opset 8"):
        testing.assert_model_converts(text, 8)


def test_a_package_lacks_a_verdict(monkeypatch):
    branch = registry.default().branch()
    del branch._verdicts["", "Softmax", 12, 13]
    monkeypatch.setattr(registry, "default", lambda: branch)
    with pytest.raises(
        AssertionError, match="1 version change without an adapter or a claim: Softmax 12->13"
    ):
        testing.assert_complete("opshift_adapters")
    with pytest.raises(AssertionError, match="no adapters of 'opshift_adapt'"):
        testing.assert_complete("opshift_adapt")


def test_a_verdict_that_is_pointless_or_stale(monkeypatch):
    branch = registry.default().branch()
    monkeypatch.setattr(registry, "default", lambda: branch)
    softmax = branch._verdicts["", "Softmax", 12, 13]
    branch._verdicts["", "Softmax", 13, 14] = softmax
    with pytest.raises(AssertionError, match="operator does not change: Softmax 13->14"):
        testing.assert_complete("opshift_adapters")
    del branch._verdicts["", "Softmax", 13, 14]
    branch._verdicts["", "Softmax", 12, 13] = replace(softmax, reviewed={"Softmax": ("000000",)})
    with pytest.raises(AssertionError, match="for another schema of the operator: Softmax"):
        testing.assert_complete("opshift_adapters")


def test_examples_of_a_package():
    pairs = testing.examples("opshift_adapters.normalize.softmax")
    assert all(isinstance(adapter, Adapter) for adapter, _ in pairs)
    assert {"negative", "last axis"} <= {example.title for _, example in pairs}  # a claim's too
    # Where NaN is the largest is open, so that Hardmax may differ.
    defined = [(adapter, example) for adapter, example in pairs if "Hardmax" not in adapter.ops]
    assert len(defined) > 3
    for adapter, example in defined[:3]:
        testing.assert_example(adapter, example)


def test_an_input_has_the_shape_that_its_example_declares():
    adapter = testing.examples("opshift_adapters.normalize.softmax")[0][0]
    wrong = Example(
        "", "(float[2,3] x) => (float[2,3] y) { y = Softmax(x) }", given={"x": [[1, 2]]}
    )
    with pytest.raises(AssertionError, match=r"'x' has the shape \(1, 2\), but the graph declares"):
        testing.assert_example(adapter, wrong)


def test_a_fold_is_what_the_model_computes():
    (add,) = (rule for rule in registry.default().rules(Fold).values() if rule.ops == ("Add",))
    plain = "() => (int64[1] y) <int64[1] a = {2}> { y = Add(a, a) }"
    testing.assert_fold(add, Example("a constant", plain))
    with pytest.raises(AssertionError, match=r"the constant is \[4\], but none was expected"):
        testing.assert_fold(add, Example("none", plain, refuses=Why.NEEDS_CONSTANT))
    with pytest.raises(AssertionError, match="the function returned no constant"):
        testing.assert_fold(add, Example("none", "(int64[1] a) => (int64[1] y) { y = Neg(a) }"))


def test_a_fold_that_computes_something_else(monkeypatch):
    wrong = Fold(ops=("Add",), run=lambda node: np.array([5]))
    branch = registry.default().branch()
    branch.rules(Fold)["", "Add"] = wrong
    monkeypatch.setattr(registry, "default", lambda: branch)
    graph = "() => (int64[1] y) <int64[1] a = {2}> { y = Add(a, a) }"
    with pytest.raises(
        AssertionError, match="the constant differs from the value that the model computes"
    ):
        testing.assert_fold(wrong, Example("wrong", graph))


def test_a_fold_that_does_without_a_value_declares_it(monkeypatch):
    (size,) = (rule for rule in registry.default().rules(Fold).values() if rule.ops == ("Size",))
    example = Example("size", "() => (int64 y) <int64[2] a = {3, 4}> { y = Size(a) }")
    testing.assert_fold(size, example)
    with pytest.raises(AssertionError, match="without the value of 'a'; name this input in sizes="):
        testing.assert_fold(dataclasses.replace(size, sizes=()), example)


def test_an_invalid_model():
    text = SOFTMAX.replace("Softmax(x)", "Sum()")
    testing.assert_invalid(text, 13, match="has 0 inputs")
    with pytest.raises(AssertionError, match="invalid for another reason"):
        testing.assert_invalid(text, 13, match="a cow")
    with pytest.raises(AssertionError, match="the invalid model converts to 13"):
        testing.assert_invalid(SOFTMAX, 13, match="")
    erf = SOFTMAX.replace("12", "13").replace("Softmax(x)", "Erf(x)").replace("float", "double")
    with pytest.raises(AssertionError, match="refused, not found invalid"):
        testing.assert_invalid(erf, 8, match="")
