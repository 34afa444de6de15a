# SPDX-License-Identifier: Apache-2.0
"""The table of types behind contrib operators says what the schemas of onnxruntime say."""

import pytest
from onnx import parser
from opshift import convert_version
from opshift.author import registry
from opshift.author.traits import OutputTypes

state = pytest.importorskip("onnxruntime.capi.onnxruntime_pybind11_state")

RULES = sorted(registry.default().rules(OutputTypes).items(), key=lambda one: one[0])
SCHEMAS = {(one.domain, one.name): one for one in state.get_all_operator_schema()}


def variable(params, i):
    return params[min(i, len(params) - 1)].typeStr


@pytest.mark.parametrize(("key", "rule"), RULES, ids=[f"{d}.{op}" for (d, op), _ in RULES])
def test_the_table_says_what_the_runtime_says(key, rule):
    schema = SCHEMAS.get(key)
    if schema is None:
        pytest.skip(f"this onnxruntime has no {key[1]}")
    for i, told in enumerate(rule.outputs):
        output = variable(schema.outputs, i)
        if isinstance(told, str):
            (only,) = next(p.types for p in schema.outputs if p.typeStr == output)
            assert only in (told, f"tensor({told})")
        else:
            assert {variable(schema.inputs, at) for at in told} == {output}


QUANTIZED = """<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>
    g (float[2] x) => (float[2] y) <float s = {0.1}, uint8 z = {3}> {
        q = QuantizeLinear(x, s, z)
        r = com.microsoft.QLinearAdd(q, s, z, q, s, z, s, z)
        y = DequantizeLinear(r, s, z) }"""


@pytest.mark.parametrize("target", [20, 13, 10])
def test_quantized_models_are_typed_behind_contrib_operators(target):
    after = convert_version(parser.parse_model(QUANTIZED), target)
    assert [node.op_type for node in after.graph.node].count("QLinearAdd") == 1


@pytest.mark.parametrize("target", [20, 13])
def test_a_zero_point_has_the_type_of_its_tensor(target):
    """Nobody describes this operator, so only the other inputs tell."""
    text = QUANTIZED.replace("QLinearAdd", "Unheard")
    after = convert_version(parser.parse_model(text), target)
    assert [node.op_type for node in after.graph.node].count("Unheard") == 1


EARLY = """<ir_version: 7, opset_import: ["": 13, "com.microsoft": 1]>
    g (float[2,4] x, float[4] s, float[4,4] w) => (float[2,4] y) {
        n = OP<axis = -1>(x, s)
        r = com.microsoft.FusedMatMul<alpha = 0.5>(n, w)
        y = com.microsoft.FastGelu(r) }"""


@pytest.mark.parametrize("op", ["LayerNormalization", "SimplifiedLayerNormalization"])
def test_an_operator_that_onnx_does_not_know_yet_hides_no_types(op):
    """onnxruntime's optimizer writes these below opset 17, and contrib operators behind them."""
    before = parser.parse_model(EARLY.replace("OP", op))
    for target in (None, 21, 11):
        after = convert_version(before, target, domains=["ai.onnx"])
        assert not [node.op_type for node in after.graph.node if node.domain]
