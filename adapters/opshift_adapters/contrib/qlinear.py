# SPDX-License-Identifier: Apache-2.0
"""QLinear operators, written as dequantization, computation as in onnxruntime, and quantization."""

from typing import Any

from opshift.adapter import Builder, Node, Refusal, Result, T, Value, Why, leaving, misread

from opshift_adapters._lib.contrib import MICROSOFT, named, written


def real(node: Node, op: Builder, names: str) -> Value:
    """Dequantizes an input; `names` are the input, its scale and its zero point."""
    return op.DequantizeLinear(*named(node, names))


def codes(node: Node, op: Builder, y: Value, names: str) -> Value:
    """Quantizes `y` with the scale and the zero point in the inputs `names`."""
    return op.QuantizeLinear(y, *named(node, names))


def rounded(op: Builder, y: Value, like: Value) -> Value:
    """Rounds `y` to the nearest code of the element type of `like`."""
    return op.QuantizeLinear(y, op.const(1, T.FLOAT), op.const(0, like=like))


def as_float(op: Builder, x: Value) -> Value:
    """Casts codes to float; constants are folded."""
    constant = x.const_or_none()
    return op.Cast(x, to=T.FLOAT) if constant is None else op.const(constant.astype("float32"))


@leaving("QLinearAdd", domain=MICROSOFT, since=10)
def qlinear_add(node: Node, op: Builder) -> Result:
    """QLinearAdd becomes a sum of codes times the ratios of the scales, by Mul and Add."""
    a, b, scale = named(node, "A B C_scale")
    left, right = (scale_of_input / scale for scale_of_input in named(node, "A_scale B_scale"))
    lost = left * as_float(op, node["A_zero_point"]) + right * as_float(op, node["B_zero_point"])
    fixed = as_float(op, node["C_zero_point"]) - lost
    sums = op.Cast(b, to=T.FLOAT) * right + fixed
    return rounded(op, op.Cast(a, to=T.FLOAT) * left + sums, a)


@leaving("QLinearMul", domain=MICROSOFT, since=10)
def qlinear_mul(node: Node, op: Builder) -> Result:
    """QLinearMul becomes a product of the codes, multiplied by the ratio of the scales."""
    constant = op.const(1, T.FLOAT)
    left = op.DequantizeLinear(node["A"], constant, node["A_zero_point"])
    right = op.DequantizeLinear(node["B"], constant, node["B_zero_point"])
    ratio = node["A_scale"] * node["B_scale"] / node["C_scale"]
    scaled = left * right * ratio
    return rounded(op, scaled + as_float(op, node["C_zero_point"]), node["A"])


@leaving("QLinearSigmoid", domain=MICROSOFT, since=10)
def qlinear_sigmoid(node: Node, op: Builder) -> Result:
    """QLinearSigmoid becomes DequantizeLinear, Sigmoid and QuantizeLinear."""
    y = op.Sigmoid(real(node, op, "X X_scale X_zero_point"))
    return codes(node, op, y, "Y_scale Y_zero_point")


@leaving("QLinearLeakyRelu", domain=MICROSOFT, since=10)
def qlinear_leaky_relu(node: Node, op: Builder) -> Result:
    """QLinearLeakyRelu becomes DequantizeLinear, LeakyRelu and QuantizeLinear."""
    x = real(node, op, "X X_scale X_zero_point")
    y = op.LeakyRelu(x, alpha=node.float("alpha"))
    return codes(node, op, y, "Y_scale Y_zero_point")


@leaving("QLinearSoftmax", domain=MICROSOFT, since=13)
def qlinear_softmax(node: Node, op: Builder) -> Result:
    """QLinearSoftmax multiplies Softmax by Floor(1 / scale) before rounding, like onnxruntime."""
    x, one = real(node, op, "X X_scale x_zero_point"), op.const(1, T.FLOAT)
    axis = node.int("axis")
    if node.int("opset") >= 13:
        y = op.Softmax(x, axis=axis)
    else:
        flat = op.Softmax(op.Flatten(x, axis=axis), axis=-1)
        y = op.Reshape(flat, op.Shape(x), allowzero=1)
    return op.QuantizeLinear(y * op.Floor(one / node["y_scale"]), one, node["y_zero_point"])


@misread(
    "QLinearSoftmax", "onnxruntime 1.12..1.28", source="2026-11-29 1.13..1.32", domain=MICROSOFT
)
def wraps_around(node: Node) -> bool | None:
    """QLinearSoftmax of int8 returns the lowest code for 1.0 if the highest code is below 1.0."""
    scale, zero = node["y_scale"].const_or_none(), node["y_zero_point"].const_or_none()
    return node["X"].elem_type_or_none == T.INT8 and (
        None if scale is None or zero is None else int(1 / scale.item()) + int(zero.item()) > 127
    )


@leaving("QLinearConcat", domain=MICROSOFT, since=10)
def qlinear_concat(node: Node, op: Builder) -> Result:
    """QLinearConcat becomes DequantizeLinear of each input, Concat and QuantizeLinear."""
    parts = node.variadic("inputs")
    if not parts or len(parts) % 3 or None in parts:
        raise Refusal(
            Why.NOT_EXPRESSIBLE, f"{node.op} needs a scale and a zero point for each input"
        )
    reals = [op.DequantizeLinear(*parts[at : at + 3]) for at in range(0, len(parts), 3)]
    y = op.Concat(*reals, axis=node.int("axis"))
    return codes(node, op, y, "Y_scale Y_zero_point")


@leaving("QLinearWhere", domain=MICROSOFT, since=10)
def qlinear_where(node: Node, op: Builder) -> Result:
    """QLinearWhere becomes DequantizeLinear of both inputs, Where and QuantizeLinear."""
    x, y = (real(node, op, f"{one} {one.lower()}_scale {one.lower()}_zero_point") for one in "XY")
    return codes(node, op, op.Where(node["condition"], x, y), "z_scale z_zero_point")


POOL = ("ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides", "auto_pad")


@leaving("QLinearAveragePool", domain=MICROSOFT, since=10)
def qlinear_average_pool(node: Node, op: Builder) -> Result:
    """QLinearAveragePool becomes DequantizeLinear, AveragePool, Div, Add and QuantizeLinear."""
    y = _pooled(node, op, "AveragePool", written(node, *POOL))
    moved = y / node["y_scale"] + as_float(op, node["y_zero_point"])
    return rounded(op, moved, node["X"])


@misread(
    "QLinearAveragePool QLinearGlobalAveragePool",
    "onnxruntime 1.6..1.10",
    source="2026-11-29 1.7, 1.9, 1.10, 1.11 and later: averages of int8",
    domain=MICROSOFT,
)
def rejects_int8(node: Node) -> bool:
    """{op} of int8 does not run, because its kernel rejects int8."""
    return node["X"].elem_type_or_none == T.INT8


@leaving("QLinearGlobalAveragePool", domain=MICROSOFT, since=10)
def qlinear_global_average_pool(node: Node, op: Builder) -> Result:
    """QLinearGlobalAveragePool becomes DequantizeLinear, GlobalAveragePool, QuantizeLinear."""
    y = _pooled(node, op, "GlobalAveragePool", {})
    return codes(node, op, y, "y_scale y_zero_point")


def _pooled(node: Node, op: Builder, name: str, same: dict[str, Any]) -> Value:
    x = real(node, op, "X x_scale x_zero_point")
    if not node.int("channels_last"):
        result: Value = op.emit(name, x, **same)
        return result
    rank = node["X"].rank
    x = op.Transpose(x, perm=[0, rank - 1, *range(1, rank - 1)])
    return op.Transpose(op.emit(name, x, **same), perm=[0, *range(2, rank), 1])


CONV = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
CONV_INPUTS = "x x_scale x_zero_point w w_scale w_zero_point y_scale y_zero_point B"


@leaving("QLinearConv", domain=MICROSOFT, since=10)
def qlinear_conv(node: Node, op: Builder) -> Result:
    """QLinearConv becomes QLinearConv of ai.onnx, between Transposes if channels are last."""
    same = written(node, *CONV)
    x, *rest = map(node.input, CONV_INPUTS.split())
    if not node.int("channels_last"):
        result: Value = op.QLinearConv(x, *rest, **same)
        return result
    rank = node["w"].rank
    x = op.Transpose(x, perm=[0, rank - 1, *range(1, rank - 1)])
    y: Value = op.QLinearConv(x, *rest, **same)
    return op.Transpose(y, perm=[0, *range(2, rank), 1])


@leaving("QGemm", domain=MICROSOFT, since=10)
def qgemm(node: Node, op: Builder) -> Result:
    """QGemm becomes MatMulInteger, Add of C, Mul by the scales and, if needed, QuantizeLinear."""
    a, b, c = node["A"], node["B"], node.input("C")
    a = op.Transpose(a, perm=[1, 0]) if node.int("transA") else a
    b = op.Transpose(b, perm=[1, 0]) if node.int("transB") else b
    sums = op.MatMulInteger(a, b, node.input("a_zero_point"), node.input("b_zero_point"))
    sums = sums if c is None else sums + c
    ratio = node["a_scale"] * node["b_scale"]
    ratio = op.const(node.float("alpha"), T.FLOAT) * ratio
    scale = node.input("y_scale")
    if scale is None:
        return op.Cast(sums, to=T.FLOAT) * ratio
    y = op.Cast(sums, to=T.FLOAT) * (ratio / scale)
    return rounded(op, y + as_float(op, node["y_zero_point"]), node["A"])
