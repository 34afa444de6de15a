# SPDX-License-Identifier: Apache-2.0
"""Products of uint8 and int8 codes, of which some processors saturate the sum of two."""

from opshift.adapter import Node, T, Value, example, misread

from opshift_adapters._lib.contrib import MICROSOFT

WITHOUT_DOT_PRODUCTS = "x86 processors without VNNI"
SAYS = "{op} of uint8 and int8 codes may saturate, unless all int8 codes are from -64 to 64,"
SOURCE = (
    "measured in 1.2.0 to 1.32.0 on a processor with AVX2 alone: products of 64 codes against exact"
    " sums; onnxruntime's page on quantization names the instruction"
)
DATE = "2026-11-28"
CODES = "(uint8[2,3] a, int8[3,4] b) => (int32[2,4] y) { y = MatMulInteger(a, b) }"
SCALED = "<float s = {{0.5}}, uint8 z = {{3}}, int8 w = {{0}}>"
LINEAR = (
    "(uint8[1,2,3,3] a, int8[1,2,3,3] b) => (uint8[1,1,1,1] y)"
    f" {SCALED} {{{{ y = {{}}(a, s, z, b, s, w, s, z) }}}}"
)
FLOATS = (
    "(uint8[1,2,3,3] a, int8[1,2,3,3] b) => (float[1,q,r,t] y)"
    f" {SCALED} {{{{ f = DequantizeLinear(a, s, z) g = DequantizeLinear(b, s, w)"
    " y = {}(f, g) }}"
)


def _differ(left: Value, right: Value) -> bool:
    """Whether the first codes are uint8, and the second ones int8."""
    return left.elem_type_or_none == T.UINT8 and right.elem_type_or_none == T.INT8


@misread(
    "MatMulInteger",
    "onnxruntime 1.2..1.32",
    SAYS,
    source=SOURCE,
    date=DATE,
    processors=WITHOUT_DOT_PRODUCTS,
)
@example("uint8 and int8", CODES, imports={"": 10})
def of_integers(node: Node) -> bool:
    return _differ(node["A"], node["B"])


@misread(
    "ConvInteger",
    "onnxruntime 1.24..1.32",
    SAYS,
    source=SOURCE,
    date=DATE,
    processors=WITHOUT_DOT_PRODUCTS,
)
@example(
    "weights of uint8",
    "(int8[1,2,4,4] a, uint8[1,2,3,3] b) => (int32[1,1,2,2] y) { y = ConvInteger(a, b) }",
    imports={"": 10},
)
def of_unsigned_weights(node: Node) -> bool:
    return _differ(node["w"], node["x"])


@misread(
    "QLinearMatMul QLinearConv",
    "onnxruntime 1.6..1.32",
    SAYS,
    source=SOURCE,
    date=DATE,
    processors=WITHOUT_DOT_PRODUCTS,
)
@example("uint8 and int8", LINEAR.format("QLinearConv"), imports={"": 10})
def of_scaled_codes(node: Node) -> bool:
    first, second = ("a", "b") if node.op == "QLinearMatMul" else ("x", "w")
    return _differ(node[first], node[second])


@misread(
    "MatMul Gemm Conv",
    "onnxruntime 1.8..1.32",
    "{op} behind DequantizeLinear of uint8 and int8 codes may saturate, unless all int8 codes are"
    " from -64 to 64,",
    source=SOURCE,
    date=DATE,
    processors=WITHOUT_DOT_PRODUCTS,
)
@example("uint8 and int8", FLOATS.format("MatMul"), imports={"": 10})
def of_dequantized_codes(node: Node) -> bool:
    first, second = (value and value.producer for value in node.inputs[:2])
    if first is None or second is None:
        return False
    both = first.op == second.op == "DequantizeLinear"
    return both and _differ(first["x"], second["x"])


@misread(
    "DynamicQuantizeMatMul",
    "onnxruntime 1.4..1.32",
    SAYS,
    source=SOURCE,
    date=DATE,
    processors=WITHOUT_DOT_PRODUCTS,
    domain=MICROSOFT,
)
@example(
    "weights of int8",
    "(float[2,3] a, int8[3,4] b) => (float[2,4] y) <float s = {0.5}> { y ="
    " com.microsoft.DynamicQuantizeMatMul(a, b, s) }",
    imports={"": 11, MICROSOFT: 1},
)
def of_dynamic_codes(node: Node) -> bool:
    return node["B"].elem_type_or_none == T.INT8


@misread(
    "DynamicQuantizeLSTM",
    "onnxruntime 1.6..1.32",
    SAYS,
    source=SOURCE,
    date=DATE,
    processors=WITHOUT_DOT_PRODUCTS,
    domain=MICROSOFT,
)
@example(
    "weights of int8",
    "(float[3,2,4] x, int8[1,4,8] w, int8[1,2,8] r, float[1,8] s, int8[1,8] z) =>"
    ' (float[3,1,2,2] y) { y = com.microsoft.DynamicQuantizeLSTM<hidden_size=2>(x, w, r, "", "",'
    ' "", "", "", s, z, s, z) }',
    imports={"": 11, MICROSOFT: 1},
)
def of_dynamic_steps(node: Node) -> bool:
    return node["W"].elem_type_or_none == T.INT8
