# SPDX-License-Identifier: Apache-2.0
"""Constant, ConstantOfShape, EyeLike and Range: values from attributes and shapes."""

from collections.abc import Sequence

from opshift.adapter import (
    CONSTANT_FORMS,
    KEEP,
    Array,
    Builder,
    Node,
    Refusal,
    Result,
    T,
    Value,
    Why,
    adapter,
    alternative,
    boundary,
    fragile,
    misread,
    np,
)
from opshift.combinators import cast_around

from opshift_adapters._lib.blocks import arange, size_of
from opshift_adapters._lib.kinds import as_type

FLOATS = (T.FLOAT, T.FLOAT16, T.DOUBLE)

CONSTANT_9 = boundary(9, "Constant:d85bdf", directions="up")


@adapter("Constant", 9, 8, handles_types=True)
def constant_9_8(node: Node, op: Builder) -> Result:
    """Below opset 9, Constant supports only floats; for other types, an initializer is written."""
    kind = node.attr("value").data_type
    return KEEP if kind in FLOATS else op.const(node.tensor("value"), kind)


CONSTANT_11 = boundary(11, "Constant:c0237c", directions="up")


@adapter("Constant", 11, 10)
def constant_11_10(node: Node, op: Builder) -> Result:
    """Opset 11 added `sparse_value` to Constant; below opset 11, a dense value is written."""
    if node.has("sparse_value"):  # pragma: no cover: no example can hold one; a test does
        (dense,) = node.outputs
        assert dense is not None
        return op.same(node, sparse_value=None, value=dense.const())
    return KEEP


CONSTANT_12 = boundary(12, "Constant:882c28", directions="up")


@adapter("Constant", 12, 11)
def constant_12_11(node: Node, op: Builder) -> Result:
    """Opset 12 added attributes for numbers and strings; below opset 12, `value` is written."""
    for form, dtype in CONSTANT_FORMS.items():
        if node.has(form):
            return op.same(node, value=np.array(node.attr(form), dtype=dtype), **{form: None})
    return KEEP


@misread("Constant", "onnxruntime 1.3..1.11", source="2026-11-23 1.3..1.11: lists", since=12)
def holds_a_list(node: Node) -> bool:
    """Constant with a list of numbers or strings is read as a scalar."""
    return any(map(node.has, ("value_ints", "value_floats", "value_strings")))


def holds_one_float(node: Node) -> bool:
    return node.has("value_float")


ONE_FLOAT_IS_NOT_READ = [
    misread(
        "Constant",
        releases,
        "Constant with value_float is not supported",
        source="2026-11-22 OpenVINO: all forms of 73 operators",
        since=12,
    )(holds_one_float)
    for releases in ("openvino 2022.1..2026.4", "opencv 4.1.2, 4.5.5, 4.8, 4.11")
]


@alternative("Constant", runtime="onnxruntime==1.10")
def constant_as_tensor(node: Node, op: Builder) -> Result:
    """Constant gets `value`; onnxruntime 1.3 to 1.11, OpenCV and OpenVINO misread other forms."""
    return constant_12_11(node, op) if op.version >= 12 else KEEP


CONSTANT_13 = boundary(13, "Constant:04a9fc")
CONSTANT_19 = boundary(19, "Constant:b35179")
CONSTANT_21 = boundary(21, "Constant:e1958b ConstantOfShape:cf0622")
CONSTANT_23 = boundary(23, "Constant:607500 ConstantOfShape:5dfb78")
CONSTANT_24 = boundary(24, "Constant:2254bf ConstantOfShape:37c4c1")
CONSTANT_25 = boundary(25, "Constant:54abdd ConstantOfShape:3c555e")


@adapter("ConstantOfShape", 9, 8, in_other_words=True)
def constant_of_shape_9_8(node: Node, op: Builder) -> Result:
    """Opset 9 added ConstantOfShape; below opset 9, Expand of a scalar is written."""
    value, kind = _element(node)
    return op.Expand(op.const(value.reshape(()), kind), node["input"])


def _element(node: Node) -> tuple[Array, int]:
    if node.has("value"):
        return node.tensor("value"), node.attr("value").data_type
    return np.zeros(1), T.FLOAT


@misread("ConstantOfShape", "openvino 2022.1", source="2026-11-30 2022.1: shapes of 0 to 4 sizes")
def fills_a_scalar(node: Node) -> bool:
    """ConstantOfShape of an empty shape does not load."""
    shape = node["input"].const_or_none()
    return shape is not None and shape.size == 0


@misread("ConstantOfShape", "onnxruntime 1.0..1.2", source="2026-11-30 1.0..1.3: 3 shapes")
def is_empty(node: Node) -> bool:
    """{op} of a constant shape with a size 0 does not load."""
    shape = node["input"].const_or_none()
    return shape is not None and not shape.all()


@alternative("ConstantOfShape", runtime="onnxruntime==1.2")
def empty_constant(node: Node, op: Builder) -> Result:
    """ConstantOfShape without elements becomes a constant."""
    shape, (value, kind) = node["input"].const_or_none(), _element(node)
    if shape is None or shape.all():
        return KEEP  # pragma: no cover: only openvino 2022.1 asks for another form
    return op.const(np.resize(value, shape), kind)


def constant_of_shape_20_19(node: Node, op: Builder) -> Result:
    """ConstantOfShape has no bfloat16 and 8-bit floats below opset 20; a float tensor is cast."""
    kind = node.attr("value").data_type
    wide = op.same(node, value=node.tensor("value").astype(np.float32))
    return op.Cast(wide, to=kind, saturate=None if kind == T.BFLOAT16 else 0)


CONSTANT_OF_SHAPE_20 = boundary(20, "ConstantOfShape:a6421e", cast=constant_of_shape_20_19)


EYE_LIKE = fragile("EyeLike")


@adapter("EyeLike", 9, 8, in_other_words=True)
def eye_like_9_8(node: Node, op: Builder) -> Result:
    """Below opset 9, EyeLike is written as Equal of all row indices and all column indices."""
    x = node["input"]
    kind, shape = node.attr("dtype") or x.elem_type, x.shape_or_none
    if shape is not None and shape[0] * shape[1] <= 1024:  # larger constants enlarge the model
        return op.const(np.eye(shape[0], shape[1], node.int("k")), kind)
    rows = arange(op, size_of(op, x, 0)) + op.const(node.int("k"))
    columns = op.Unsqueeze(arange(op, size_of(op, x, 1)), axes=[0])
    return op.Cast(op.Equal(op.Unsqueeze(rows, axes=[1]), columns), to=kind)


EYE_22 = boundary(22, "EyeLike:899eeb", cast=cast_around("float"))


@adapter("Range", 11, 10)
def range_11_10(node: Node, op: Builder) -> Result:
    """Opset 11 added Range; below opset 11, start + i * delta is written for each i."""
    ends = [node["start"], node["limit"], node["delta"]]
    kind = _type_of_one(ends)
    (result,) = node.outputs
    if result is not None and (constant := result.const_or_none()) is not None:
        return op.const(constant, kind)
    if kind in FLOATS:
        return _float_range(op, kind, *ends)
    if _is(ends[2], 1):
        counted = _counted_by_one(op, ends[0], ends[1], kind)
    else:
        start, limit, delta = (as_type(op, v, T.INT64) for v in ends)
        past = limit - start + delta - op.Sign(delta)
        steps = arange(op, _not_below_zero(op, past / delta))
        counted = steps * delta + start
    return as_type(op, counted, kind)


def _is(value: Value, number: int) -> bool:
    constant = value.const_or_none()
    return constant is not None and bool((constant == number).all())


def _not_below_zero(op: Builder, count: Value) -> Value:
    zero = op.const(0)
    return op.Where(count < zero, zero, count)


def _counted_by_one(op: Builder, start: Value, limit: Value, kind: int) -> Value:
    """Writes the integers from start to limit in steps of 1; none if limit is below start."""
    low, high = start.bounds_or_none, limit.bounds_or_none
    rises = low is not None and high is not None and high.lowest >= low.highest
    begin, end = (as_type(op, v, T.INT64) for v in (start, limit))
    if _is(start, 0):
        return arange(op, end if rises else _not_below_zero(op, end))
    count = end - begin
    return arange(op, count if rises else _not_below_zero(op, count)) + begin


def _float_range(op: Builder, kind: int, start: Value, limit: Value, delta: Value) -> Value:
    way = op.Cast(limit - start, to=T.DOUBLE)
    count = op.Ceil(way / op.Cast(delta, to=T.DOUBLE))
    steps = arange(op, op.Cast(op.Max(count, op.const(0, T.DOUBLE)), to=T.INT64))
    return op.Cast(steps, to=kind) * delta + start


def _type_of_one(values: Sequence[Value]) -> int:
    """Returns the common element type of the values, from any value whose type is known."""
    kinds = (v.elem_type_or_none for v in values)
    return next((kind for kind in kinds if kind is not None), None) or values[0].elem_type


RANGE_27 = boundary(27, "Range:770b92", directions="up")


@adapter("Range", 27, 26, handles_types=True)
def range_27_26(node: Node, op: Builder) -> Result:
    """Below opset 27, Range of 16-bit floats is written with Casts to its `stash_type`."""
    ends = [node["start"], node["limit"], node["delta"]]
    kind, stash = _type_of_one(ends), node.int("stash_type")
    if kind not in (T.FLOAT16, T.BFLOAT16):
        return op.same(node, stash_type=None)
    if stash not in (T.FLOAT, T.DOUBLE):
        raise Refusal(Why.NOT_EXPRESSIBLE, f"Range with stash_type {stash} needs opset 27")
    return op.Cast(op.Range(*(op.Cast(v, to=stash) for v in ends)), to=kind)
