# SPDX-License-Identifier: Apache-2.0
"""Products of quantized numbers, and DynamicQuantizeLinear, written as ordinary arithmetic."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from opshift.adapter import (
    Builder,
    InvalidModel,
    Node,
    Result,
    T,
    Value,
    adapter,
    alternative,
    boundary,
    misread,
    np,
)

from opshift_adapters._lib.kinds import as_type
from opshift_adapters._lib.makers import maker
from opshift_adapters._lib.saturation import SAYS, differ, saturating, with_unsigned
from opshift_adapters._lib.scales import quantized, requantized, unsigned


@adapter("DynamicQuantizeLinear", 11, 10, in_other_words=True)
def dynamic_quantize_linear_11_10(node: Node, op: Builder) -> Result:
    """Below opset 11, DynamicQuantizeLinear becomes QuantizeLinear with a computed scale."""
    x, zero, steps = node["x"], op.const(0, T.FLOAT), op.const(255, T.FLOAT)
    low = op.Min(op.ReduceMin(x, keepdims=0), zero)
    high = op.Max(op.ReduceMax(x, keepdims=0), zero)
    scale = (high - low) / steps
    # If all elements are zero, runtimes use a scale of 1 instead of a division by 0.
    scale = op.Where(op.Cast(scale, to=T.BOOL), scale, op.const(1, T.FLOAT))
    point = quantized(op, zero - low / scale, None, T.UINT8)
    return op.QuantizeLinear(x, scale, point), scale, point


@adapter("MatMulInteger", 10, 9, in_other_words=True)
def mat_mul_integer_10_9(node: Node, op: Builder) -> Result:
    """Below opset 10, MatMulInteger is written as MatMul of codes minus zero points."""
    a, zero = node["A"], node.input("a_zero_point")
    codes = requantized(op, a, zero) if zero is None or zero.rank_or_none == 0 else None
    kind = T.INT32 if codes is None or not _few_products(node["B"]) else T.FLOAT
    rows = _shifted(op, a, zero, kind, rows=True) if codes is None else as_type(op, codes, kind)
    columns = _shifted(op, node["B"], node.input("b_zero_point"), kind, rows=False)
    product = op.MatMul(rows, columns)
    return as_type(op, product, T.INT32)


early = partial(
    misread,
    "MatMulInteger",
    "onnxruntime 1.0..1.3",
    source="2026-11-23 1.0..1.3, 1.14: one node per element type",
)


@early("MatMulInteger of int8 weights with a zero point does not run")
def of_shifted_int8(node: Node) -> bool:
    return len(node.proto.input) > 2 and node["B"].elem_type_or_none == T.INT8


@early("MatMulInteger with a zero point for only its second input crashes the process")
def with_the_second_zero_point_alone(node: Node) -> bool:
    return len(node.proto.input) > 3 and node.input("a_zero_point") is None


per_axis = partial(
    misread,
    says="{op} with a zero point or scale per row, column or channel is wrong or does not run",
    source="2026-11-29 24 releases, 1.0..1.32: 10 forms; up to 1.4, all rows,"
    " columns or channels use the first number",
)


@per_axis("MatMulInteger QLinearMatMul", "onnxruntime 1.0..1.7")
def has_points_per_column(node: Node) -> bool | None:
    return _is_vector(node.input("b_zero_point"))


@per_axis("MatMulInteger QLinearMatMul", "onnxruntime 1.0..1.32")
def has_points_per_row(node: Node) -> bool | None:
    return _is_vector(node.input("a_zero_point"))


@per_axis("ConvInteger", "onnxruntime 1.0..1.32")
def has_points_per_channel(node: Node) -> bool | None:
    return _is_vector(node.input("w_zero_point"))


@per_axis("QLinearConv", "onnxruntime 1.0..1.5")
def has_scales_per_channel(node: Node) -> bool | None:
    return _is_vector(node["w_scale"])


@per_axis("QLinearConv", "onnxruntime 1.6..1.26")
def has_unequal_points(node: Node) -> bool | None:
    constant = node["w_zero_point"].const_or_none()
    return _is_vector(node["w_zero_point"]) if constant is None else len(np.unique(constant)) > 1


def _is_vector(x: Value | None) -> bool | None:
    """Returns whether a zero point or a scale is a vector of several numbers."""
    dims = () if x is None else x.dims_or_none
    return None if dims is None else len(dims) == 1 and dims[0] != 1


@misread("MatMulInteger", "openvino 2023.0", source="2026-11-23 2022.1..2026.4: a network")
def of_dynamic_codes(node: Node) -> bool:
    """MatMul of two values that DynamicQuantizeLinear and MatMulInteger compute may be wrong."""
    return maker(node["A"], "DynamicQuantizeLinear") is not None


@alternative("MatMulInteger", runtime="onnxruntime==1.2")
def of_unsigned_codes(node: Node, op: Builder) -> Result:
    """MatMulInteger gets uint8 codes and zero points, 128 higher than the int8 codes."""
    a, p = unsigned(op, node["A"], node.input("a_zero_point"))
    b, q = unsigned(op, node["B"], node.input("b_zero_point"))
    return op.MatMulInteger(a, b, p, q)


def _few_products(b: Value) -> bool:
    """Returns whether float is known to represent each sum of products of 8-bit differences."""
    dims = b.dims_or_none
    depth = dims[-2:][0] if dims else None
    return isinstance(depth, int) and depth * 255**2 < 2**24


def _shifted(op: Builder, x: Value, zero: Value | None, kind: int, *, rows: bool) -> Value:
    """Subtracts the zero point; a vector of zero points has one for each row or column."""
    wide = op.Cast(x, to=kind)
    if zero is None:
        return wide
    return wide - _per_row(op, x, op.Cast(zero, to=kind), rows)


def _per_row(op: Builder, x: Value, p: Value, rows: bool) -> Value:
    """Returns a scale or zero point that broadcasts to the rows or columns of `x`."""
    if p.rank == 0:
        return p
    if p.shape_or_none == (1,) or (rows and x.rank_or_none == 1):
        return op.Reshape(p, op.const([]))
    return op.Unsqueeze(p, axes=[1]) if rows and p.rank == 1 else p


@adapter("ConvInteger", 10, 9, in_other_words=True)
def conv_integer_10_9(node: Node, op: Builder) -> Result:
    """Below opset 10, ConvInteger becomes Conv of codes minus zero points, for each digit."""
    zeros = node.input("x_zero_point"), node.input("w_zero_point")
    return as_type(op, _convolved(node, op, node["x"], node["w"], *zeros), T.INT32)


def _convolved(
    node: Node, op: Builder, x: Value, w: Value, x_zero: Value | None, w_zero: Value | None
) -> Value:
    """Writes Conv of codes minus zero points; the sums of products are exact."""
    digit, codes = _largest_digit(w, w_zero), requantized(op, x, x_zero)
    kind = T.FLOAT if digit else T.DOUBLE
    weights, data = (
        op.Cast(w, to=kind),
        op.Cast(x, to=kind) if codes is None else as_type(op, codes, kind),
    )
    if x_zero is not None and codes is None:
        data = data - op.Cast(x_zero, to=kind)
    if w_zero is not None:
        weights = weights - _per_channel(op, op.Cast(w_zero, to=kind), w.rank - 1)
    names = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    kept: dict[str, Any] = {name: node.attr(name) for name in names if node.has(name)}
    if digit in (0, FARTHEST):
        sums: Value = op.Conv(data, weights, **kept)
        return sums
    return _by_digits(op, weights, digit, lambda part: op.Conv(data, part, **kept))


FARTHEST = 255  # the largest difference of two codes
LARGEST_SUM = 2**24  # up to this number, float represents each integer


def _largest_digit(w: Value, zero: Value | None) -> int:
    """Returns the largest weight digit with which sums are exact in float; 0 if that is unknown."""
    shape, known = w.shape_or_none, w.const_or_none()
    point = np.zeros(1, np.int64) if zero is None else zero.const_or_none()
    if shape is None:
        return 0
    if known is not None and point is not None:
        rows = known.astype(np.int64).reshape(shape[0], math.prod(shape[1:]))
        sums = np.abs(rows - point.astype(np.int64).reshape(-1, 1)).sum(axis=1)
        if FARTHEST * sums.max(initial=0) <= LARGEST_SUM:
            return FARTHEST
    return min(FARTHEST, LARGEST_SUM // (FARTHEST * max(math.prod(shape[1:]), 1)))


def _by_digits(
    op: Builder, weights: Value, digit: int, convolved: Callable[[Value], Value]
) -> Value:
    """Splits the weights into digits (small integers) and sums a Conv for each digit in int32."""
    base, reach, factor = 2 * digit + 1, digit, 1
    total, rest = None, weights
    while True:
        part = rest
        if reach < FARTHEST:
            above = op.Floor((rest + op.const(digit, T.FLOAT)) / op.const(base, T.FLOAT))
            part, rest = rest - above * op.const(base, T.FLOAT), above
        sums = op.Cast(convolved(part), to=T.INT32)
        sums = sums if factor == 1 else sums * op.const(factor, T.INT32)
        total = sums if total is None else total + sums
        if reach >= FARTHEST:
            return total
        reach, factor = reach * base + digit, factor * base


def _per_channel(op: Builder, p: Value, behind: int) -> Value:
    """Returns a scalar as it is, or a vector of output channels with `behind` axes of size 1."""
    return p if p.rank == 0 else op.Reshape(p, op.const([-1] + [1] * behind))


def _scaled(op: Builder, sums: Value, factor: Value, zero: Value) -> Value:
    return quantized(op, as_type(op, sums, T.FLOAT) * factor, zero, zero.elem_type)


def scales_in_float(node: Node, op: Builder) -> Result:
    """Below opset 21, QLinearMatMul has only float scales; other scales are cast to float."""
    scales = {name: as_type(op, node[name], T.FLOAT) for name in ("a_scale", "b_scale", "y_scale")}
    return op.same(node, inputs=scales)


Q_LINEAR_MAT_MUL_21 = boundary(21, "QLinearMatMul:b67ba5", cast=scales_in_float)


@adapter("QLinearMatMul", 10, 9, in_other_words=True)
def q_linear_mat_mul_10_9(node: Node, op: Builder) -> Result:
    """Below opset 10, QLinearMatMul becomes MatMul of differences, scaled and rounded."""
    a = _shifted(op, node["a"], node["a_zero_point"], T.INT32, rows=True)
    b = _shifted(op, node["b"], node["b_zero_point"], T.INT32, rows=False)
    scales = {n: as_type(op, node[f"{n}_scale"], T.FLOAT) for n in "aby"}
    rows, columns = (_per_row(op, node[n], scales[n], n == "a") for n in ("a", "b"))
    return _scaled(op, op.MatMul(a, b), rows * columns / scales["y"], node["y_zero_point"])


@adapter("QLinearConv", 10, 9, in_other_words=True)
def q_linear_conv_10_9(node: Node, op: Builder) -> Result:
    """Below opset 10, QLinearConv becomes Conv of differences, scaled in float and rounded.

    The sum with a bias wraps around in int32, as in onnxruntime.
    """
    w, bias = node["w"], node.input("B")
    sums = _convolved(node, op, node["x"], w, node["x_zero_point"], node["w_zero_point"])
    if bias is not None:
        sums = as_type(op, sums, T.INT32) + _per_channel(op, bias, w.rank - 2)
    scales = _per_channel(op, node["w_scale"], w.rank - 2)
    factor = scales * _one_scale(node, "x_scale") / _one_scale(node, "y_scale")
    return _scaled(op, sums, factor, node["y_zero_point"])


def _one_scale(node: Node, name: str) -> Value:
    """Returns the scale of the whole tensor; raises InvalidModel if it is an empty vector."""
    scale = node[name]
    if scale.rank_or_none == 1 and scale.dims[0] == 0:
        raise InvalidModel(f"{node.op} {node.name!r} has an empty {name}")
    return scale


@saturating("MatMulInteger", "onnxruntime 1.2..1.32", SAYS)
def of_mixed_codes(node: Node) -> bool:
    return differ(node["A"], node["B"])


@saturating("ConvInteger", "onnxruntime 1.24..1.32", SAYS)
def of_unsigned_weights(node: Node) -> bool:
    return differ(node["w"], node["x"])


@alternative("ConvInteger", runtime="onnxruntime==1.32")
def conv_of_unsigned_codes(node: Node, op: Builder) -> Result:
    """ConvInteger gets uint8 codes, 128 higher; it fills pads with the zero point of the data."""
    return with_unsigned(node, op, x="x_zero_point", w="w_zero_point")


@misread("QLinearConv", "onnxruntime 1.0..1.2", source="2026-11-30 nine releases: 11,552 sums")
def scales_by_integers(node: Node) -> bool:
    """QLinearConv multiplies sums by an integer, not by the scales; a result may differ by 1."""
    return True


@saturating("QLinearMatMul QLinearConv", "onnxruntime 1.6..1.32", SAYS)
def of_scaled_codes(node: Node) -> bool:
    first, second = _factors(node)
    return differ(node[first], node[second])


@alternative("QLinearMatMul QLinearConv", runtime="onnxruntime==1.16")
def scaled_product_of_unsigned_codes(node: Node, op: Builder) -> Result:
    """The int8 codes of the second factor of a QLinear product become uint8 codes, 128 higher."""
    _, second = _factors(node)
    return with_unsigned(node, op, **{second: f"{second}_zero_point"})


def _factors(node: Node) -> tuple[str, str]:
    return ("a", "b") if node.op == "QLinearMatMul" else ("x", "w")
