# SPDX-License-Identifier: Apache-2.0
"""QuantizeLinear and DequantizeLinear: element types, scales along axes and blocks, precision."""

from collections.abc import Iterator

from opshift.adapter import (
    KEEP,
    Builder,
    Node,
    Refusal,
    Result,
    Surroundings,
    T,
    Value,
    Why,
    adapter,
    alternative,
    boundary,
    by_value,
    by_width,
    form,
    in_other_words,
    misread,
    np,
    saturates,
    scales,
)

from opshift_adapters._lib.kinds import as_type
from opshift_adapters._lib.makers import maker, unmoved
from opshift_adapters._lib.saturation import LIMIT, saturating
from opshift_adapters._lib.scales import (
    FLOAT8,
    along,
    multiplied,
    per_tensor,
    raised,
    repeated,
    rounded,
    single,
    widened,
)

BOUNDED = saturates("QuantizeLinear", limit="Clip")
ROUNDED_TWICE = by_width("QuantizeLinear", floats=True)  # the quotient is rounded, too
CODES = by_width("DequantizeLinear")  # int32 codes have no zero point
DIVIDED = scales("QuantizeLinear", by="Div", along=along, reads_codes=False)
MULTIPLIED = scales("DequantizeLinear", by="Mul", along=along, reads_codes=True)
# onnxruntime moves a DequantizeLinear behind these operators.
PASSED = ("Identity", "MaxPool", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze")
READ_BY_VALUE = by_value("DequantizeLinear", 0, 2)  # the zero point is read, too


@form("DequantizeLinear")
def int32_multiplied(node: Node, op: Builder) -> Result:
    """DequantizeLinear of int32 below 13 becomes Cast and Mul, as onnxruntime 1.2 cannot run it."""
    if op.version > 12 or node["x"].elem_type_or_none != T.INT32:
        return KEEP
    zero = node.input("x_zero_point")
    constant = zero and zero.const_or_none()
    if zero is not None and (constant is None or constant.any()):
        return KEEP
    return op.Cast(node["x"], to=T.FLOAT) * node["x_scale"]


@misread("DequantizeLinear", "onnxruntime 1.0..1.2", source="2026-11-22 1.0..1.2: scalars")
def of_a_scalar(node: Node) -> bool:
    """DequantizeLinear of a tensor of rank 0 crashes the process."""
    return node["x"].rank_or_none == 0


@misread("DequantizeLinear", "onnxruntime 1.9..1.13", source="2026-11-29 1.7..1.17: six operators")
def of_a_read_output(node: Node, around: Surroundings) -> bool:
    """DequantizeLinear crashes, or its output is lost, if a node reads its graph output."""
    value = node.outputs[0]
    return value is not None and around.is_output(value) and bool(around.readers(value))


@alternative("DequantizeLinear", runtime="onnxruntime==1.2")
def plain_codes(node: Node, op: Builder) -> Result:
    """DequantizeLinear gets a vector or uint8 codes, or an Identity after it."""
    if node["x"].rank_or_none == 0:
        return op.Squeeze(op.same(node, inputs={"x": op.Unsqueeze(node["x"], axes=[0])}))
    if node["x"].elem_type_or_none != T.INT8:
        return op.Identity(op.same(node))
    if node["x_scale"].shape_or_none is None:
        return KEEP
    zero = node.input("x_zero_point") or op.const(np.zeros(node["x_scale"].shape), T.INT8)
    return op.same(node, inputs={"x": raised(op, node["x"]), "x_zero_point": raised(op, zero)})


@saturating(
    "DequantizeLinear",
    "onnxruntime 1.8..1.32",
    f"MatMul, Gemm or Conv of 8-bit codes and the int8 codes of a {{op}} {LIMIT}",
)
def of_the_second_codes(node: Node, around: Surroundings) -> bool:
    codes = node.outputs[0]
    if codes is None or node["x"].elem_type_or_none != T.INT8:
        return False
    alone = all(len(around.readers(v)) == 1 and not around.is_output(v) for v in (codes, node["x"]))
    # onnxruntime replaces the int8 codes of a QuantizeLinear with uint8 codes.
    return not (alone and _are_computed(node)) and any(
        map(_has_unsigned_codes, _products(codes, around))
    )


def _are_computed(codes: Node) -> bool:
    return maker(codes["x"], "QuantizeLinear") is not None


def _products(second: Value, around: Surroundings) -> Iterator[Node]:
    """Yields the products whose second factor has the elements of a value."""
    for reader in around.readers(second):
        if reader.op in PASSED and reader.outputs[0] is not None:
            yield from _products(reader.outputs[0], around)
        elif reader.op in ("MatMul", "Gemm", "Conv") and reader.proto.input[1] == second.name:
            yield reader


def _has_unsigned_codes(product: Node) -> bool:
    """Returns whether the first factor has uint8 codes, perhaps only in onnxruntime."""
    first = maker(unmoved(product.inputs[0], *PASSED), "DequantizeLinear")
    kind = None if first is None else first["x"].elem_type_or_none
    return kind == T.UINT8 or (first is not None and kind == T.INT8 and _are_computed(first))


@misread("QuantizeLinear", "onnxruntime 1.0..1.2", source="2026-11-26 1.0..1.4: 1,206 numbers")
def to_int8(node: Node) -> bool:
    """QuantizeLinear of int8 returns -127 instead of -128."""
    zero = node.input("y_zero_point")
    return zero is not None and zero.elem_type_or_none == T.INT8


@misread("QuantizeLinear", "openvino 2022.1..2024.6", source="2026-11-29 2022.1..2026.4: one node")
def by_a_huge_scale(node: Node) -> bool:
    """QuantizeLinear with a scale above 1e33 is rejected or returns wrong numbers."""
    scale = node["y_scale"].const_or_none()
    return scale is not None and bool((scale > 1e33).any())


@alternative("QuantizeLinear", runtime="onnxruntime==1.2")
def over_unsigned_codes(node: Node, op: Builder) -> Result:
    """QuantizeLinear to int8 becomes uint8 codes minus 128; onnxruntime 1.0 to 1.2 clip to -127."""
    zero = node.input("y_zero_point")
    if zero is None or zero.elem_type_or_none != T.INT8:
        return KEEP
    stated = {"output_dtype": None} if op.version >= 21 and node.int("output_dtype") else {}
    codes = op.same(node, inputs={"y_zero_point": raised(op, zero)}, **stated)
    return op.Cast(op.Cast(codes, to=T.INT32) - 128, to=T.INT8)


def dequantize_widened(node: Node, op: Builder) -> Result:
    """DequantizeLinear gets wider codes if the older opset lacks their element type."""
    x = _from_a_wider_pair(node["x"], op) or widened(op, node["x"])
    zero, scale = widened(op, node.input("x_zero_point")), widened(op, node["x_scale"])
    return op.same(node, inputs={"x": x, "x_zero_point": zero, "x_scale": scale})


def _from_a_wider_pair(x: Value, op: Builder) -> Value | None:
    """Writes a second QuantizeLinear with wider integers, whose result only this node reads."""
    source = maker(x, "QuantizeLinear")
    if source is None or x.elem_type not in (T.INT2, T.UINT2):
        return None
    codes = T(x.elem_type).element
    wide = codes.replacement
    zero = widened(op, source.input("y_zero_point"))
    kept = {name: source.attr(name) for name in ("axis", "block_size", "precision")}
    made = op.QuantizeLinear(
        source["x"], source["y_scale"], zero, output_dtype=None if zero else wide, **kept
    )
    low, high = codes.limits
    return op.Clip(made, op.const(low, wide), op.const(high, wide))


def gone_with_its_reader(node: Node, op: Builder) -> Result:
    """Removes QuantizeLinear after its reader, because the older opset lacks its output type."""
    result = node.outputs[0]
    assert result is not None
    return op.dissolve(f"the older opset lacks {_name(result)}")


def _name(value: Value) -> str:
    return T(value.elem_type).name.lower()


DEQUANTIZE_28 = boundary(28, "DequantizeLinear:ce9785", cast=dequantize_widened)
QUANTIZE_28 = boundary(28, "QuantizeLinear:53d63b")
DEQUANTIZE_25 = boundary(25, "DequantizeLinear:8bb9bf", cast=dequantize_widened)
QUANTIZE_25 = boundary(25, "QuantizeLinear:172e0f", cast=gone_with_its_reader)


DEQUANTIZE_24 = boundary(24, "DequantizeLinear:3afd7a", cast=dequantize_widened)


def quantize_widened(node: Node, op: Builder) -> Result:
    """Below opset 24, QuantizeLinear has no float8e8m0 scales; these are widened."""
    precision = node.int("precision") or T.FLOAT
    return op.same(node, inputs={"y_scale": widened(op, node["y_scale"])}, precision=precision)


QUANTIZE_24 = boundary(24, "QuantizeLinear:eddcb4", cast=quantize_widened)


QUANTIZE_23_UP = boundary(23, "QuantizeLinear:d1c854 DequantizeLinear:3bd8fa", directions="up")


@adapter("DequantizeLinear", 23, 22, handles_types=True)
def dequantize_linear_23_22(node: Node, op: Builder) -> Result:
    """Below opset 23, DequantizeLinear lacks `output_dtype`; a Cast follows it if needed."""
    scale, kind = node["x_scale"], node.int("output_dtype")
    alike = kind == 0 or kind == scale.elem_type
    inputs = {
        "x": widened(op, node["x"]),
        "x_zero_point": widened(op, node.input("x_zero_point")),
        "x_scale": scale if alike else as_type(op, scale, T.FLOAT),
    }
    result = op.same(node, inputs=inputs, output_dtype=None)
    return result if alike else as_type(op, result, kind)


@adapter("QuantizeLinear", 23, 22)
def quantize_linear_23_22(node: Node, op: Builder) -> Result:
    """Below opset 23, QuantizeLinear lacks `precision`; x and the scale are cast to that type."""
    x, scale = node["x"], node["y_scale"]
    precision = node.int("precision") or scale.elem_type
    inputs = {"x": as_type(op, x, precision), "y_scale": as_type(op, scale, precision)}
    return op.same(node, inputs=inputs, precision=None)


LINEAR_21_UP = boundary(21, "QuantizeLinear:1aff0c DequantizeLinear:514aa9", directions="up")


@adapter("DequantizeLinear", 21, 20, handles_types=True)
def dequantize_linear_21_20(node: Node, op: Builder) -> Result:
    """Below opset 21, DequantizeLinear of blocks, 16 or 4 bits is written as Sub and Mul."""
    x, scale, axis, block = node["x"], node["x_scale"], node.int("axis"), node.int("block_size")
    data = _quantized_again(x, op) or widened(op, x)
    assert data is not None
    if not block and data.elem_type not in (T.INT16, T.UINT16):
        zero = widened(op, node.input("x_zero_point"))
        return op.same(node, inputs={"x": data, "x_zero_point": zero}, block_size=None)
    result = multiplied(op, node, lambda p: along(op, p, x, axis, block), data)
    return as_type(op, result, scale.elem_type)


def _quantized_again(x: Value, op: Builder) -> Value | None:
    """Writes a second QuantizeLinear to 8 instead of 4 bits, whose result only this node reads."""
    source = maker(x, "QuantizeLinear")
    if source is None or x.elem_type not in (T.INT4, T.UINT4):
        return None
    return _in_integers(source, op, x.elem_type)


def _in_integers(node: Node, op: Builder, kind: int) -> Value:
    axis, block = node.int("axis"), node.int("block_size")
    return rounded(op, node, lambda p: along(op, p, node["x"], axis, block), kind)


@adapter("QuantizeLinear", 21, 20, handles_types=True)
def quantize_linear_21_20(node: Node, op: Builder) -> Result:
    """Below opset 21, QuantizeLinear of blocks, 16 or 4 bits becomes Div, rounding and Clip."""
    scale, zero, block = node["y_scale"], node.input("y_zero_point"), node.int("block_size")
    named = node.int("output_dtype")
    kind = zero.elem_type if zero else named or T.UINT8
    if kind in (T.INT4, T.UINT4):
        return op.dissolve(f"the older opset lacks {T(kind).name.lower()}")
    if kind in FLOAT8 and block:
        ratio = node["x"] / along(op, scale, node["x"], node.int("axis"), block)
        return op.Cast(ratio, to=kind, saturate=node.int("saturate"))
    if block or kind in (T.INT16, T.UINT16):
        node.has("saturate")  # `saturate` affects only 8-bit floats
        return _in_integers(node, op, kind)
    if zero is None and kind != T.UINT8:
        zero = _zeros(op, scale, kind)
    return op.same(node, inputs={"y_zero_point": zero}, block_size=None, output_dtype=None)


def _zeros(op: Builder, scale: Value, kind: int) -> Value:
    shape = scale.shape_or_none
    if shape is not None:
        return op.const(np.zeros(shape), kind)
    return op.Expand(op.const(0, kind), op.Shape(scale))


def dequantize_in_float(node: Node, op: Builder) -> Result:
    """Below opset 19, DequantizeLinear has float scales and no float8; others need constants."""
    x, scale = node["x"], node["x_scale"]
    if x.elem_type in FLOAT8:
        constant = x.const_or_none()
        if constant is None:
            raise Refusal(
                Why.TYPE_NOT_AVAILABLE,
                f"the older opset lacks {_name(x)}, and {x.name!r} is not a constant",
            )
        data, axis = op.const(constant.astype(np.float32), T.FLOAT), node.int("axis")
        zero = node.input("x_zero_point")
        if zero is not None:
            offset = op.const(zero.const().astype(np.float32), T.FLOAT)
            data = data - along(op, offset, x, axis)
        scaled = data * along(op, as_type(op, scale, T.FLOAT), x, axis)
        return as_type(op, scaled, scale.elem_type)
    inputs = {"x_scale": as_type(op, scale, T.FLOAT)}
    return as_type(op, op.same(node, inputs=inputs), scale.elem_type)


DEQUANTIZE_19 = boundary(19, "DequantizeLinear:ae89f5", cast=dequantize_in_float)


@adapter("QuantizeLinear", 18, 19)
def quantize_linear_18_19(node: Node, op: Builder) -> Result:
    """Opset 19 requires one type for x and y_scale of QuantizeLinear; x is cast to float."""
    x = as_type(op, node["x"], T.FLOAT)
    return op.same(node, inputs={"x": x})


OF_FLOAT8 = {"saturate": "`saturate` affects only 8-bit floats"}


@adapter("QuantizeLinear", 19, 18, handles_types=True, ignores=OF_FLOAT8)
def quantize_linear_19_18(node: Node, op: Builder) -> Result:
    """Below opset 19, y_scale of QuantizeLinear is float; for other types, Div is written first."""
    x, scale, zero = node["x"], node["y_scale"], node.input("y_zero_point")
    if scale.elem_type in (T.FLOAT, T.INT32):
        return op.same(node, inputs={"y_scale": as_type(op, scale, T.FLOAT)}, saturate=None)
    ratio = op.Cast(x / along(op, scale, x, node.int("axis")), to=T.FLOAT)
    one = op.const(1, T.FLOAT)
    if zero is not None and scale.shape_or_none is None:
        one = op.Expand(one, op.Shape(scale))
    elif zero is not None:
        one = op.const(np.ones(scale.shape), T.FLOAT)
    return op.same(node, inputs={"x": ratio, "y_scale": one}, saturate=None)


ONE_SCALE = {"axis": "a single scale does not use `axis`"}
LINEAR_13_UP = boundary(13, "QuantizeLinear:48a123 DequantizeLinear:ec4034", directions="up")


@adapter("DequantizeLinear", 13, 12, ignores=ONE_SCALE)
def dequantize_linear_13_12(node: Node, op: Builder) -> Result:
    """Below opset 13, DequantizeLinear with scales along an axis is written as Sub and Mul."""
    if per_tensor(node["x_scale"]):
        return op.same(node, axis=None)
    return multiplied(op, node, lambda p: along(op, p, node["x"], node.int("axis")))


@adapter("QuantizeLinear", 13, 12, ignores=ONE_SCALE)
def quantize_linear_13_12(node: Node, op: Builder) -> Result:
    """Below opset 13, QuantizeLinear with scales along an axis becomes Div, rounding and Clip."""
    if per_tensor(node["y_scale"]):
        return op.same(node, axis=None)
    zero = node.input("y_zero_point")
    kind = zero.elem_type if zero else T.UINT8
    return rounded(op, node, lambda p: along(op, p, node["x"], node.int("axis")), kind)


@adapter("DequantizeLinear", 10, 9, in_other_words=True)
def dequantize_linear_10_9(node: Node, op: Builder) -> Result:
    """Opset 10 added DequantizeLinear; below opset 10, Sub and Mul are written."""
    known = repeated(node)
    return multiplied(op, node, lambda p: single(op, p, node["x"])) if known is None else known


@adapter("QuantizeLinear", 10, 9)
def quantize_linear_10_9(node: Node, op: Builder) -> Result:
    """Opset 10 added QuantizeLinear; below opset 10, Div, rounding, Add and Clip are written."""
    zero = node.input("y_zero_point")
    return rounded(
        op, node, lambda p: single(op, p, node["x"]), zero.elem_type if zero else T.UINT8
    )


@in_other_words("QuantizeLinear")
def rounded_quotient(node: Node, op: Builder) -> Result:
    """QuantizeLinear is written as a rounded quotient, clipped to the range of the output type."""
    if not 13 <= op.version < 19 or node["y_scale"].rank_or_none != 0:
        return KEEP  # pragma: no cover: other forms are converted by adapters
    node.int("axis")  # a single scale has no axis
    return quantize_linear_10_9(node, op)
