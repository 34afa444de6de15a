# SPDX-License-Identifier: Apache-2.0
"""The attributes, inputs and outputs of contrib operators that a runtime does not know."""

from __future__ import annotations

import pytest
from onnx import ModelProto, checker, helper, parser
from opshift import Refused, Why, convert, plan
from opshift.look.accepts import accepts
from opshift.opsets import fields

MS = "com.microsoft"
SKIP = (MS, "SkipLayerNormalization")
SUM = "(float[2,3,4] x, float[2,3,4] s) => (float[2,3,4] y, float[2,3,4] z) <float[4] g = {1, 2, 3, 4}> { y, m, d, z = com.microsoft.SkipLayerNormalization<epsilon = 0.1>(x, s, g) }"
PLAIN = SUM.replace(", float[2,3,4] z)", ")").replace(", m, d, z =", " =")


def model(graph: str, opset: int = 11) -> ModelProto:
    imports = f'"": {opset}, "{MS}": 1'
    return parser.parse_model(f"<ir_version: 6, opset_import: [{imports}]> g {graph}")


def operators(proto: ModelProto) -> set[str]:
    return {
        f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        for node in proto.graph.node
    }


def test_a_table_is_read_as_it_was_written():
    unknown = {
        ("", "Loop"): {"outputs>3": (0,)},
        SKIP: {"epsilon": (0, 1, 3), "i1@0+2": (3,), "inputs>4": (2,)},
        (MS, "Irfft"): {"*": (0, 1)},
    }
    before = fields.FieldTable("runtime", ("0.9", "1.2", "1.10", "1.11"), unknown)
    assert fields.read("\n".join(fields.written(before))) == before


def test_a_release_between_two_does_not_know_what_both_do_not_know():
    unknown = {SKIP: {"epsilon": (0, 1), "inputs>4": (1,)}}
    table = fields.FieldTable("runtime", ("1.0", "1.4"), unknown)
    assert table.of(SKIP, "1.4") == {"epsilon", "inputs>4"}
    assert table.of(SKIP, "1.2") == {"epsilon"}
    assert table.of(SKIP, "1.9") == table.of(("", "Add"), "1.4") == frozenset()


@pytest.mark.parametrize(
    ("node", "said"),
    [
        (helper.make_node("A", ["x"], ["y"], alpha=1.0), "an attribute alpha"),
        (helper.make_node("A", ["x", "", "z"], ["y"]), "more than 2 inputs"),
        (helper.make_node("A", ["x"], ["y", "z"]), "more than 1 outputs"),
        (helper.make_node("A", ["x", "z"], ["y"], beta=1.0), None),
    ],
)  # fmt: skip
def test_the_words_name_the_field(node, said):
    assert fields.given(node, {"alpha", "inputs>2", "outputs>1"}) == said


@pytest.mark.parametrize(
    ("graph", "release", "kept"),
    [
        (SUM, "1.2", False), (SUM, "1.13", False), (SUM, "1.14", True),
        (PLAIN, "1.2", False), (PLAIN, "1.3", True),
    ],
)  # fmt: skip
def test_a_node_with_what_the_release_does_not_know_is_written_in_ai_onnx(graph, release, kept):
    before = model(graph)
    target = f"onnxruntime=={release}"
    assert accepts(before, target).accepted is kept
    after = convert(before, target).model
    checker.check_model(after)
    assert ("com.microsoft.SkipLayerNormalization" in operators(after)) is kept
    assert accepts(after, target).accepted
    assert plan(before, target).possible


def test_what_no_adapter_writes_is_refused_by_name():
    graph = "(float[1] a, float[1] b) => (float[n] y) { y = com.microsoft.GatedRelativePositionBias<num_heads = 2>(a, a, a, a, b, b, b) }"
    with pytest.raises(Refused) as refused:
        convert(model(graph, 18), "onnxruntime==1.14")
    assert {one.why for one in refused.value.refusals} == {Why.TARGET_LACKS}
    assert any(
        one.detail.endswith("GatedRelativePositionBias with more than 6 inputs")
        for one in refused.value.refusals
    )


@pytest.mark.parametrize(
    ("types", "unknown", "lacked"),
    [
        ({"x": "int8"}, {"i1@0+2"}, "int8"), ({"z": "int8"}, {"i1@0+2"}, "int8"),
        ({"y": "int8"}, {"i1@0+2"}, None), ({"x": "uint8"}, {"i1@0+2"}, None),
        ({}, {"*", "alpha"}, ""), ({"x": "int8"}, {"alpha", "inputs>1"}, None),
    ],
)  # fmt: skip
def test_a_type_lacks_a_kernel_at_the_inputs_that_are_named(types, unknown, lacked):
    node = helper.make_node("A", ["x", "y", "z"], ["w"])
    assert fields.without_kernel(node, unknown, lambda name: types.get(name, "")) == lacked


@pytest.mark.parametrize(
    ("graph", "release", "says", "later"),
    [
        ("(double[2] x) => (uint32[2] y) { y = com.microsoft.MurmurHash3(x) }", "1.2", "MurmurHash3 of double has no kernel on the CPU in onnxruntime 1.2", "1.11"),
        ("(float[1,2,3] x) => (int32[2,N] y) { y = com.microsoft.DynamicTimeWarping(x) }", "1.17", "DynamicTimeWarping has no kernel on the CPU in onnxruntime 1.17", "1.20"),
    ],
)  # fmt: skip
def test_a_plan_names_a_contrib_operator_without_a_kernel_or_another_form(
    graph, release, says, later
):
    target = f"onnxruntime=={release}"
    before = model(graph)
    assert [refusal for refusal in plan(before, target).refusals if says in refusal.detail]
    assert [reason for reason in accepts(before, target).reasons if says in reason]
    plain = graph.replace("double", "float")
    assert accepts(model(plain), f"onnxruntime=={later}").accepted


@pytest.mark.parametrize(
    ("op", "graph", "lacks", "has"),
    [
        (
            "MultiHeadAttention",
            "(float[1,2,4] q, float[1,3,4] k) => (float[1,2,4] y) { y = com.microsoft.MultiHeadAttention<num_heads = 2>(q, k, k) }",
            "1.14", "1.15",
        ),
        (
            "SkipSimplifiedLayerNormalization",
            "(float[1,2,4] x, float[4] g) => (float[1,2,4] y) { y = com.microsoft.SkipSimplifiedLayerNormalization(x, x, g) }",
            "1.15", "1.16",
        ),
        (
            "QuantizeLinear",
            "(float[4] x) => (uint16[4] y) <float s = {0.1}, uint16 z = {9}> { y = com.microsoft.QuantizeLinear(x, s, z) }",
            "1.16", "1.17",
        ),
    ],
)  # fmt: skip
def test_an_operator_without_a_kernel_on_the_cpu_is_written_out(op, graph, lacks, has):
    source = model(graph, 13)
    assert f"com.microsoft.{op}" in str(accepts(source, f"onnxruntime=={lacks}"))
    assert accepts(source, f"onnxruntime=={has}").answer == "yes"
    result = convert(source, f"onnxruntime=={lacks}").model
    assert not any(name.startswith(MS) for name in operators(result))


def test_an_operator_that_lacks_nothing_is_measured():
    tokens = '(string[2] x) => (string[2,n] y) { y = com.microsoft.Tokenizer<mark = 0, mincharnum = 1, pad_value = "#", separators = [" "]>(x) }'
    assert accepts(model(tokens), "onnxruntime==1.14").answer == "yes"
