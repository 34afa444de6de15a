# SPDX-License-Identifier: Apache-2.0
"""Operators that a runtime lacks are replaced by operators that the runtime has."""

from __future__ import annotations

import os
import random

import opshift
import pytest
from opshift.author import registry
from opshift.author.verdicts import ALTERNATIVE, WORDS
from opshift.convert.other_words import OtherWords
from opshift.convert.request import Request
from opshift.errors import Refused
from opshift.opsets import schemas
from opshift.opsets.targets import Lacking, RuntimeRelease
from opshift.opsets.wanted import Wanted
from opshift.testing.example_models import example_model, examples, too_new
from opshift.testing.models import assert_model_converts, parsed

SUBSETS = int(os.environ.get("OPSHIFT_SUBSETS", "20"))  # 1,000 in depth
OPERATORS = [op for op in schemas.operators("") if schemas.schema("", op, 17)]
RULES = [
    adapter for adapter in registry.installed().adapters() if (adapter.start, adapter.to) == WORDS
]


def row(only=(), without=()):
    return RuntimeRelease(
        "box", "", {}, None, "",
        without=tuple(map(Lacking.parse, without)), only=tuple(map(Lacking.parse, only)),
    )  # fmt: skip


def for_box(model, **lists):
    return opshift.convert_version(model, Request(Wanted(row(**lists))))


def ops(model):
    return [node.op_type for node in model.graph.node]


def of(text, opset=17):
    return parsed(f'<ir_version: 8, opset_import: ["" : {opset}]> m {text}')


def subsets(count):
    """Operators of a runtime, from a few to nearly all."""
    draw = random.Random(7)
    for _ in range(count):
        yield draw, sorted(draw.sample(OPERATORS, draw.randrange(1, len(OPERATORS))))


def test_every_way_ends_in_operators_that_the_runtime_has():
    adapters = registry.installed()
    for draw, has in subsets(SUBSETS):
        words = OtherWords(adapters, row(only=has), 17)
        for op in draw.sample(OPERATORS, 25):
            key = ("", op)
            if op in has:
                assert words.lead_from(key)
                continue
            waiting, missing = [key], set(words.missing(key))
            assert words.lead_from(key) == (not missing)
            while waiting and not missing:
                one = waiting.pop()
                if one[1] in has:
                    continue
                needed = [*words.rules.successors(words.cheapest[one])]
                # Each cost is above those of what the rule writes, so that no way is a circle.
                assert all(words.costs[other] < words.costs[one] for other in needed)
                waiting += needed
            assert not missing.intersection(has)


def test_a_conversion_ends_for_any_operators_that_a_runtime_has():
    cases = [
        (adapter, example)
        for adapter, example in examples("opshift_adapters")
        if adapter in RULES and not too_new(adapter, example)
    ]
    for draw, has in subsets(SUBSETS // 8):
        adapter, example = draw.choice(cases)
        model = example_model(adapter, example)
        try:
            result = for_box(model, only=has)
        except Refused as refused:
            assert {refusal.op for refusal in refused.refusals} - set(has)
        else:
            assert set(ops(result)) <= set(has)


def test_no_rule_writes_an_operator_back_without_end():
    model = of("(float[2] x) => (float[2] y) { y = Ceil(x) }")
    assert ops(for_box(model, without=["Ceil"])) == ["Neg", "Floor", "Neg"]
    with pytest.raises(Refused, match="does not read Ceil 13"):
        for_box(model, without=["Ceil", "Floor"])


def test_an_operator_in_an_earlier_form_is_written_in_others_too():
    """The rule for Size writes a Squeeze with the attribute of opset 11 and below."""
    model = of("(float[2,N] x) => (int64 y) { y = Size(x) }")
    assert "Squeeze" in ops(for_box(model, without=["Size"]))
    found = ops(for_box(model, without=["Size", "Squeeze"]))
    assert found == ["Shape", "Slice", "Slice", "Mul", "Reshape"]


def test_the_refusal_names_the_operator_without_other_words():
    model = of("(float[2] x) => (float[2] y) { y = Selu(x) }")
    with pytest.raises(Refused, match="does not read Selu 6, and its replacement needs Exp"):
        for_box(model, without=["Selu", "Exp"])


def test_a_refusal_names_the_source_of_a_new_node_and_the_size_that_removes_it():
    text = """(float[n,4] x) => (int64[m] y) <int64 zero = {0}, int64 one = {1}>
        { s = Shape(x) i = Gather<axis = 0>(s, zero) y = Range(zero, i, one) }"""
    lacks = {"without": ("Range", "NonZero", "Loop", "CumSum")}
    with pytest.raises(Refused) as refused:
        for_box(of(text), **lacks)
    assert refused.value.refusals[0].node.endswith("(written for Range 'y')")
    assert refused.value.refusals[0].shape == "x=8,4"
    fixed = Request(Wanted(row(**lacks)), shape={"x": (8, 4)})
    assert not {"Range", "NonZero"} & set(ops(opshift.convert_version(of(text), fixed)))


@pytest.mark.parametrize("release", ["0.3", "0.4"])  # 0.4 finds the node in the body of a Loop
def test_a_refusal_names_the_source_after_any_number_of_steps(release):
    text = """(float[n] x, int64[m] i, float[m] u) => (float[k] y)
        { y = ScatterElements<reduction = "max">(x, i, u) }"""
    with pytest.raises(Refused) as refused:
        opshift.convert_version(of(text, 18), f"onnxruntime=={release}")
    for refusal in refused.value.refusals:
        assert refusal.node.endswith("(written for ScatterElements 'y')")


def test_an_approximation_needs_a_permission():
    model = of("(float[2] x, float[2] z) => (float[2] y) { y = Div(x, z) }")
    with pytest.raises(Refused, match="APPROXIMATE_ONLY"):
        for_box(model, without=["Div"])
    request = Request(Wanted(row(without=["Div"])), allow_approximate=True)
    assert ops(opshift.convert_version(model, request)) == ["Reciprocal", "Mul"]


UNARY = ["Elu", "Cosh", "Softplus", "Softsign", "HardSigmoid"]
BINARY = ["Add", "Sub", "Max", "Min", "Less", "Greater"]


@pytest.mark.parametrize("op", UNARY + BINARY)
def test_nothing_is_written_for_a_type_that_the_other_words_lack_too(op):
    given, kind = ("x, x" if op in BINARY else "x"), ("bool" if op in BINARY[-2:] else "double")
    model = of(f"(double[2] x) => ({kind}[2] y) {{ y = {op}({given}) }}", 10)
    with pytest.raises(Refused) as refused:
        opshift.convert(model, "onnxruntime==0.4")
    assert {refusal.op for refusal in refused.value.refusals} == {op}


def test_a_type_without_a_kernel_is_no_reason_if_the_other_words_have_it():
    model = of("(double[2] x) => (double[2] y) { y = Selu(x) }")
    report = opshift.convert(model, "onnxruntime==1.32").report
    assert report.runtime is not None
    assert report.runtime.answer == "yes"


def test_a_shape_is_no_constant_where_constants_are_floats():
    text = "(float[2,3] x) => (int64[2] y) { y = Shape(x) }"
    assert ops(for_box(of(text, 9), without=["Shape"])) == ["Constant"]
    with pytest.raises(Refused, match="does not read Shape 1"):
        for_box(of(text, 8), without=["Shape"])


def test_a_list_of_operators_is_enough():
    model = of("(float[2,3] x) => (float[2,3] y) { a = Softsign(x) b = Selu(a) y = Mean(b, x) }")
    has = ["Add", "Div", "Exp", "Max", "Mul", "Sub", "Where", "Less"]
    assert set(ops(for_box(model, only=has))) <= set(has)


def test_versions_of_a_listed_operator_count():
    with_14 = row(only=["LSTM<14", "Clip>=11"])
    assert [one.shown for one in with_14.lacking(("", "LSTM"))] == ["LSTM>=14"]
    assert [one.shown for one in with_14.lacking(("", "Clip"))] == ["Clip<11"]
    assert [one.shown for one in with_14.lacking(("", "Relu"))] == ["Relu"]
    assert with_14.lacking(("ai.onnx.ml", "Scaler")) == []


def test_a_runtime_that_has_everything_changes_nothing():
    model = of("(float[2] x) => (float[2] y) { y = Softsign(x) }")
    assert for_box(model, only=OPERATORS) == model


@pytest.mark.parametrize("rule", RULES, ids=lambda one: one.ops[0])
def test_an_example_of_each_rule_converts(rule):
    assert rule.choices


LATER = {
    "GroupNormalization": (
        21,
        "(float[1,4,3] x, float[4] s, float[4] b) => (float[1,4,3] y) {"
        " y = GroupNormalization<num_groups = 2>(x, s, b) }",
    ),
    "QuantizeLinear": (
        17,
        "(float[2,3] x) => (uint8[2,3] y) <float[3] s = {0.5, 1, 2}, uint8[3] z = {0, 1, 2}> {"
        " y = QuantizeLinear(x, s, z) }",
    ),
}


@pytest.mark.parametrize("op", LATER)
def test_a_rule_for_the_first_version_is_not_used_for_a_later_meaning(op):
    opset, text = LATER[op]
    model = of(text, opset)
    assert_model_converts(model, Request(Wanted(row(without=[op]))))


# The operators that rules lead to: no rule is wanted for them.
PRIMITIVES = {
    "Add", "Cast", "Concat", "Constant", "Conv", "Div", "Exp", "Gather", "Log", "MatMul", "Max",
    "Min", "Mul", "ReduceMax", "ReduceMean", "ReduceSum", "Relu", "Reshape", "Sigmoid", "Slice",
    "Sqrt", "Sub", "Tanh", "Transpose", "Where",
}  # fmt: skip
WITHOUT_OTHER_WORDS = {
    "its places depend on windows or regions, and it is no elementwise or reducing operator": (
        "AveragePool ConvTranspose DeformConv LpPool MaxPool MaxRoiPool MaxUnpool Resize RoiAlign"
    ),
    "it computes step by step": "GRU If LSTM Loop RNN Scan SequenceMap",
    "it orders or counts elements": "NonMaxSuppression TfIdfVectorizer TopK",
    "it writes to computed places": "ScatterElements ScatterND",
    "it draws random numbers": (
        "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike"
    ),
    "its values are no tensors of numbers": (
        "ConcatFromSequence ImageDecoder Optional OptionalGetElement OptionalHasElement"
        " RegexFullMatch SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert"
        " SequenceLength SplitToSequence StringConcat StringNormalizer StringSplit"
    ),
    "it makes values from numbers": "MelWeightMatrix Range",
}


def test_every_operator_has_other_words_or_a_reason_why_not():
    adapters = registry.installed()
    places = (ALTERNATIVE, WORDS)
    with_rule = {
        op for op in schemas.operators("") if any(adapters.get("", op, *at) for at in places)
    }
    current = {
        op
        for op in schemas.operators("")
        if (schema := schemas.schema("", op, schemas.latest("") or 1)) and not schema.deprecated
    }
    listed = {op for ops in WITHOUT_OTHER_WORDS.values() for op in ops.split()}
    assert current - with_rule - PRIMITIVES == listed & current - with_rule
    written = {op for op in listed if adapters.get("", op, *WORDS)}
    assert not written, "a rule needs no reason why there is none"
