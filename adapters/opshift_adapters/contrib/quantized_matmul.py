# SPDX-License-Identifier: Apache-2.0
"""DynamicQuantizeMatMul, MatMulIntegerToFloat and MatMulInteger16: products of integers."""

from opshift.adapter import Builder, Node, Result, T, Value, alternative, leaving

from opshift_adapters._lib.contrib import MICROSOFT
from opshift_adapters._lib.saturation import SAYS, saturating, with_unsigned


def _scaled(op: Builder, sums: Value, scale: Value, bias: Value | None) -> Value:
    y = op.Cast(sums, to=T.FLOAT) * scale
    return y if bias is None else y + bias


@leaving("DynamicQuantizeMatMul", domain=MICROSOFT, since=11)
def dynamic_quantize_matmul(node: Node, op: Builder) -> Result:
    """DynamicQuantizeMatMul becomes DynamicQuantizeLinear, MatMulInteger and Mul by scales."""
    a, scale, zero = op.DynamicQuantizeLinear(node["A"], outputs=3)
    whole = scale * node["b_scale"]
    sums = op.MatMulInteger(a, node["B"], zero, node.input("b_zero_point"))
    return _scaled(op, sums, whole, node.input("bias"))


@saturating("DynamicQuantizeMatMul", "onnxruntime 1.4..1.32", SAYS, domain=MICROSOFT)
def of_dynamic_codes(node: Node) -> bool:
    return node["B"].elem_type_or_none == T.INT8


@alternative("DynamicQuantizeMatMul", domain=MICROSOFT, runtime="onnxruntime==1.16")
def dynamic_product_of_unsigned_codes(node: Node, op: Builder) -> Result:
    """The int8 weights of DynamicQuantizeMatMul become uint8 codes, which are 128 higher."""
    return with_unsigned(node, op, B="b_zero_point")


@leaving("MatMulIntegerToFloat", domain=MICROSOFT, since=10)
def matmul_integer_to_float(node: Node, op: Builder) -> Result:
    """MatMulIntegerToFloat becomes MatMulInteger and Mul by the scales."""
    scale = node["a_scale"] * node["b_scale"]
    zeros = node.input("a_zero_point"), node.input("b_zero_point")
    return _scaled(op, op.MatMulInteger(node["A"], node["B"], *zeros), scale, node.input("bias"))


@leaving("MatMulInteger16", domain=MICROSOFT, since=9)
def matmul_integer_16(node: Node, op: Builder) -> Result:
    """MatMulInteger16 becomes MatMul of int32."""
    a, b = (op.Cast(node[name], to=T.INT32) for name in "AB")
    return op.MatMul(a, b)
