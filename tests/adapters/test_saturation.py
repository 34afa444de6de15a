# SPDX-License-Identifier: Apache-2.0
"""Which products of codes onnxruntime computes as uint8 by int8, as measured in 1.7 to 1.32."""

from __future__ import annotations

import pytest
from opshift import accepts, convert
from text_models import model

UINT8 = "c = QuantizeLinear(a, s, u) f = DequantizeLinear(c, s, u)"
INT8 = "c = QuantizeLinear(a, s, z) f = DequantizeLinear(c, s, z)"
SECOND = "d = QuantizeLinear(b, s, z) g = DequantizeLinear(d, s, z)"
AGAIN = "h = DequantizeLinear(d, s, z) o = Relu(h)"
CODES = "g = DequantizeLinear(d, s, z)"
PRODUCT = "y = MatMul(f, g)"


@pytest.mark.parametrize(
    ("inputs", "nodes", "saturates"),
    [
        ("float[2,3] a, int8[3,2] d", f"{UINT8} {CODES} {PRODUCT}", True),
        ("float[2,3] a, int8[3,2] d", f"{INT8} {CODES} {PRODUCT}", True),
        ("float[2,3] a, uint8[3,2] d", f"{INT8} g = DequantizeLinear(d, s, u) {PRODUCT}", False),
        ("int8[2,3] c, int8[3,2] d", f"f = DequantizeLinear(c, s, z) {CODES} {PRODUCT}", False),
        ("float[3,2] a, int8[2,3] d", f"{INT8} {CODES} y = MatMul(g, f)", False),
        ("float[2,3] a, float[3,2] b", f"{INT8} {SECOND} {PRODUCT}", False),
        ("float[2,3] a, float[3,2] b", f"{UINT8} {SECOND} {PRODUCT}", False),
        ("float[2,3] a, float[3,2] b", f"{UINT8} {SECOND} {AGAIN} {PRODUCT}", True),
        ("float[2,3] a, float[3,2] b", f"{UINT8} {SECOND} o = Relu(g) {PRODUCT}", True),
        ("float[3,2] a, int8[3,2] d", f"{INT8} {CODES} t = Transpose(f) y = MatMul(t, g)", True),
        ("float[2,3] a, int8[2,3] d", f"{INT8} {CODES} t = Transpose(g) y = MatMul(f, t)", True),
        ("float[2,3] a, int8[3,2] d", f"{INT8} {CODES} t = Relu(f) y = MatMul(t, g)", False),
    ],
)
def test_the_answer_depends_on_the_codes_that_onnxruntime_multiplies(inputs, nodes, saturates):
    kept = ", float[3,2] o" if "o = " in nodes else ""
    constants = "<float s = {0.5}, int8 z = {0}, uint8 u = {128}>"
    proto = model(f"({inputs}) => (float[2,2] y{kept}) {constants} {{ {nodes} }}", 13)
    assert accepts(proto, "onnxruntime==1.20").answer == ("not known" if saturates else "yes")
    result = convert(proto, "onnxruntime==1.20")
    assert accepts(result.model, "onnxruntime==1.20").answer == "yes"
    assert len(result.model.graph.node) > len(proto.graph.node) or not saturates
