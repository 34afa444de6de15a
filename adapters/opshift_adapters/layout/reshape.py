# SPDX-License-Identifier: Apache-2.0
"""Reshape, Flatten, Transpose, Expand, Shape, Size and Identity."""

import math
from functools import partial

from opshift.adapter import (
    KEEP,
    Assumption,
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
    example,
    form,
    in_other_words,
    misread,
    np,
)

from opshift_adapters._lib.blocks import END, count_elements, padded_shape, part, reshaped
from opshift_adapters._lib.kinds import FLOATS, INTS, SMALL_INTS, as_type
from opshift_adapters._lib.moved import moved
from opshift_adapters._lib.repeats import Dims, repeated_to

TYPES_25 = boundary(
    25, "Flatten:a6476d Identity:5e5318 Reshape:e34f79 Shape:d95a96 Size:e2adf1 Transpose:58d6a0"
)
TYPES_24 = boundary(
    24, "Flatten:555226 Identity:fa20ed Reshape:a2ebe7 Shape:7e83f1 Size:3a86e2 Transpose:8978f3"
)
TYPES_23 = boundary(
    23, "Flatten:03e5cd Identity:55d9bd Reshape:896b48 Shape:fa6172 Size:f4fc98 Transpose:a18234"
)


def infers_beside_zero(node: Node) -> bool:
    """Returns whether allowzero is 1 and the shape, perhaps a Concat of parts, contains -1."""
    shape = node["shape"]
    producer = shape.producer
    values = (shape, *(producer.inputs if producer is not None else ()))
    constants = [value.const_or_none() for value in values if value is not None]
    return node.int("allowzero") == 1 and any(one is not None and -1 in one for one in constants)


INFERS_BESIDE_ZERO = [
    misread(
        "Reshape",
        releases,
        f"Reshape with allowzero = 1 and -1 in its shape {effect}",
        source=f"2026-11-22 {source}",
        since=14,
    )(infers_beside_zero)
    for releases, effect, source in (
        ("onnxruntime 1.8..1.10", "fails at run time", "measured in onnxruntime 1.8 to 1.11"),
        ("openvino 2022.1", "is rejected", "measured in OpenVINO: 73 operators in all forms"),
    )
]


@form("Reshape")
def without_allowzero(node: Node, op: Builder) -> Result:
    """Removes `allowzero` for onnxruntime 1.8 to 1.10 if the shape has no 0."""
    if "allowzero" not in node.attributes or not node.int("allowzero"):
        return KEEP
    shape = node["shape"].const_or_none()
    if _has_no_zero(node["shape"]) if shape is None else 0 not in shape:
        return op.same(node, allowzero=None)
    return op.same(node, allowzero=None) if _assumes_no_zero(op, node) else KEEP


def _has_no_zero(shape: Value) -> bool:
    """Returns whether the shape has no 0, which is certain if it has -1 (with `allowzero`)."""
    concat = shape.producer
    parts = concat.inputs if concat is not None and concat.op == "Concat" else ()
    sizes = [size for part in parts if part and (size := part.const_or_none()) is not None]
    return any(-1 in size for size in sizes)


def _assumes_no_zero(op: Builder, node: Node) -> bool:
    """Returns whether the caller assumes that no size of the tensor and of its new shape is 0."""
    shape = node["shape"].const_or_none()
    return (shape is None or 0 not in shape) and op.assumes(Assumption.NO_ZERO_DIMS, node["data"])


def by_reshape(node: Node, op: Builder) -> Result:
    """Writes Reshape to the shape of the result, because the older operator lacks 8-bit floats."""
    data, *more = node.inputs
    assert data is not None
    (wide,) = op.same_but(node, [op.Cast(data, to=T.FLOAT16), *more])
    return op.Reshape(data, op.Shape(wide), allowzero=1)


def by_float16(node: Node, op: Builder) -> Result:
    """Casts 8-bit floats to float16 and back, because the older operator lacks 8-bit floats."""
    kind = next(v for v in node.inputs if v is not None).elem_type
    inputs = [op.Cast(v, to=T.FLOAT16) if v and v.elem_type == kind else v for v in node.inputs]
    return op.Cast(op.same_but(node, inputs)[0], to=kind, saturate=0)


TYPES_21 = boundary(21, "Identity:855313 Reshape:aded5e Shape:e76a81 Size:4a37dc")
FLATTEN_21 = boundary(21, "Flatten:443813", cast=by_reshape)
TRANSPOSE_21 = boundary(21, "Transpose:2345ed", cast=by_float16)
TYPES_19 = boundary(19, "Identity:e58e3b Reshape:3de5a8 Shape:b3131e Size:b39098")
IDENTITY_16 = boundary(16, "Identity:b3a2c0")
SHAPE_15_UP = boundary(15, "Shape:9d1b71", directions="up")


@adapter("Shape", 15, 14)
def shape_15_14(node: Node, op: Builder) -> Result:
    """Opset 15 added `start` and `end` to Shape; before that, a Slice of the shape is written."""
    return _sliced_shape(node, op)


misread_by_openvino = partial(
    misread, "Shape", "openvino 2022.1..2023.3", source="2026-11-29 2022.1..2026.4: Shape", since=15
)


@misread_by_openvino("Shape ignores start and returns all sizes")
def has_start(node: Node) -> bool:
    return node.has("start")


@misread_by_openvino("Shape ignores end and returns all sizes")
def has_end(node: Node) -> bool:
    return node.has("end")


@alternative("Shape", runtime="openvino==2023.0")
def shape_and_slice(node: Node, op: Builder) -> Result:
    """OpenVINO to 2023.3 ignores `start` and `end` of Shape; a Slice of the shape is written."""
    return _sliced_shape(node, op) if op.version >= 15 else KEEP


def _sliced_shape(node: Node, op: Builder) -> Result:
    start, end = node.int("start"), node.int("end") if node.has("end") else END
    whole = op.same(node, start=None, end=None)
    return whole if (start, end) == (0, END) else part(op, whole, start, end)


def _passed_through_loop(node: Node, op: Builder) -> Result:
    """Below opset 14, Identity of a sequence becomes a second node that computes it, or a Loop."""
    x, going = node["input"], op.const(True, T.BOOL)
    producer = x.producer
    if producer is not None and "Sequence" in producer.op:
        return op.same(producer)
    body = op.graph(
        lambda b, i, keep, s: (b.Identity(keep), b.SequenceErase(s)), (T.INT64, ()), (T.BOOL, ()), x
    )
    return op.Loop(op.const(0), going, x, body=body)


IDENTITY_14 = boundary(14, "Identity:6d4702", cast=_passed_through_loop)


@misread("Identity", "opencv 4.1.2, 4.5.5", source="2026-11-26 4.1.2..5.0: of a constant")
def of_a_constant(node: Node) -> bool:
    """Identity of a constant is not supported."""
    return node["input"].const_or_none() is not None


@misread("Identity", "onnxruntime 1.0..1.2, 1.8..1.16", source="2026-11-30 1.0..1.17: 2 forms")
def of_constant_strings(node: Node, around: Surroundings) -> bool | None:
    """Identity of constant strings may not load."""
    x, y = node["input"], node.outputs[0]
    is_constant = x.elem_type_or_none == T.STRING and x.const_or_none() is not None
    return is_constant and ((y is not None and around.is_output(y)) or None)


@alternative("Identity", runtime="opencv==4.5.5")
def constant_for_identity(node: Node, op: Builder) -> Result:
    """Identity of a constant becomes Constant, for OpenCV, and for strings in onnxruntime."""
    constant = node["input"].const_or_none()
    if constant is None or (op.version < 9 and constant.dtype.kind != "f"):
        return KEEP  # below opset 9, Constant accepts only floats
    return op.Constant(value=constant)


RESHAPE_14_UP = boundary(14, "Reshape:b32ca2", directions="up")


@adapter("Reshape", 14, 13)
def reshape_14_13(node: Node, op: Builder) -> Result:
    """Below opset 14, a 0 in `shape` of Reshape copies an input size; an Expand corrects it."""
    if not node.int("allowzero"):
        return op.same(node, allowzero=None)
    x, shape = node["data"], node["shape"]
    goal, dims = shape.const_or_none(), x.dims_or_none
    copies = (
        goal is not None
        and dims is not None
        and all(size or (i < len(dims) and dims[i] == 0) for i, size in enumerate(goal.tolist()))
    )
    if copies or _has_no_zero(shape) or _meets_no_zero(x, shape) or _assumes_no_zero(op, node):
        return op.same(node, allowzero=None)
    return _reshaped(op, x, shape)


def _meets_no_zero(x: Value, shape: Value) -> bool:
    """Returns whether the constant shape, or the sizes of `x`, prove that the shape has no 0."""
    goal, sizes = shape.const_or_none(), x.shape_or_none
    return (goal is not None and 0 not in goal) or (sizes is not None and 0 not in sizes)


def _reshaped(op: Builder, x: Value, shape: Value) -> Value:
    """Writes a Reshape whose computed shape may have a 0, which older opsets read as a copy.

    An Expand first gives an empty input the size 0 at each such axis, so that the copy is right.
    """
    # 1 for each size except 0. Inference of runtimes mistakes a Cast to bool and back
    # for the sizes, and rejects the Expand.
    ones = op.Cast(~op.Equal(shape, op.const(0)), to=T.INT64)
    flat = x if x.rank_or_none == 1 else op.Reshape(x, op.const([-1]))
    return op.Reshape(op.Expand(flat, ones), shape)


TYPES_13 = boundary(
    13,
    "Expand:505986 Flatten:17f24e Identity:42b4bb Reshape:de35a2 Shape:fcabfe Size:a2977a "
    "Transpose:e93d32",
)


# The operators past which onnxruntime moves a Transpose.
THROUGH = (
    "Abs Acos Acosh Add And ArgMax Asin Asinh Atan Atanh Cast Ceil Celu Clip Concat Cos Cosh "
    "DequantizeLinear Div Dropout Equal Erf Exp Expand Floor Greater GreaterOrEqual HardSigmoid "
    "HardSwish Hardmax Identity IsInf IsNaN LeakyRelu Less LessOrEqual Log LogSoftmax Max Mean "
    "Min Mod Mul Neg Not PRelu Pad Pow QuantizeLinear Reciprocal ReduceMax ReduceMean ReduceSum "
    "Relu Round Selu Sigmoid Sign Sin Sinh Slice Softmax Softplus Softsign Split Sqrt Squeeze "
    "Sub Sum Tan Tanh ThresholdedRelu Tile Transpose Unsqueeze Where"
)
MOVED_THROUGH = frozenset(THROUGH.split())


@misread(
    "Transpose",
    "onnxruntime 1.10",
    "a Transpose may not load if both a Loop or If body and a node outside of it read its result",
    source="2026-11-23 1.9..1.11: each operator between two Transposes",
)
def is_read_in_a_branch_too(node: Node, around: Surroundings) -> bool:
    """Returns whether a subgraph and a node outside of it read the result of a Transpose."""
    result = node.outputs[0]
    names, visited = [result], set[str]()
    deeper = meets = False
    while names:
        value = names.pop()
        if value is None or value.name in visited:
            continue  # pragma: no cover: two paths may reach the same value
        visited.add(value.name)
        readers = around.readers(value)
        if readers and around.is_read_within(value):
            deeper = True
            meets = meets or value is result
        meets = meets or any(reader.op == node.op for reader in readers)
        names += [out for reader in readers if reader.op in MOVED_THROUGH for out in reader.outputs]
    return deeper and meets


@alternative("Transpose", runtime="onnxruntime==1.10")
def behind_a_reshape(node: Node, op: Builder) -> Result:
    """A Reshape follows the Transpose, which onnxruntime 1.10 might otherwise move wrongly."""
    rank = node["data"].rank_or_none
    return KEEP if rank is None else op.Reshape(op.same(node), op.const([0] * rank))


FLATTEN_11_UP = boundary(11, "Flatten:5fda33", directions="up")


def _flatten(op: Builder, x: Value, axis: int) -> Value:
    """Writes Flatten as Reshape, which works for every element type, rank and size."""
    shape = x.shape_or_none
    if shape is None:
        whole = op.Shape(x)
        sides = (part(op, whole, 0, axis), part(op, whole, axis))
        sizes = [count_elements(op, side) for side in sides]
        return op.Reshape(x, op.Concat(*sizes, axis=0), allowzero=1)
    if axis in (0, len(shape)):
        return op.Reshape(x, op.const([-1, 1] if axis else [1, -1]))
    rows = columns = 1
    for i, size in enumerate(shape):
        rows, columns = (rows * size, columns) if i < axis else (rows, columns * size)
    return op.Reshape(x, op.const([rows, columns]), allowzero=1)


@adapter("Flatten", 11, 10)
def flatten_11_10(node: Node, op: Builder) -> Result:
    """Below opset 11, a negative `axis` of Flatten becomes positive, or Reshape is written."""
    x, axis = node["input"], node.int("axis")
    if axis >= 0:
        return KEEP
    rank = x.rank_or_none
    return _flatten(op, x, axis) if rank is None else op.same(node, axis=axis + rank)


@example("int64", "(int64[2,3,4] x) => (int64[6,4] y) { y = Flatten<axis=2>(x) }", gives="Reshape")
def _flatten_9_8(node: Node, op: Builder) -> Result:
    """Opset 9 added types other than floats to Flatten; below opset 9, a Reshape is written."""
    return _flatten(op, node["input"], node.int("axis"))


FLATTEN_9 = boundary(9, "Flatten:021954", cast=_flatten_9_8)


@adapter("Expand", 8, 7, in_other_words=True)
def expand_8_7(node: Node, op: Builder) -> Result:
    """Opset 8 added Expand; below opset 8, Tile or an operator that broadcasts is written."""
    x, shape = node["input"], node["shape"]
    if x.rank_or_none is not None and shape.shape_or_none is not None:
        return _tiled(op, x, shape)
    nowhere = _nowhere(op, shape)
    if x.rank_or_none == 0:
        return op.Gather(op.Reshape(x, op.const([1])), op.Cast(nowhere, to=T.INT64), axis=0)
    return _stretched(op, x, nowhere)


def _tiled(op: Builder, x: Value, shape: Value) -> Value:
    """Broadcasts `x`, whose rank is known, with a shape of known length, by Tile."""
    (length,) = shape.shape
    if x.rank < length:
        x = op.Unsqueeze(x, axes=list(range(length - x.rank)))
    rank = x.rank
    if rank == 0:
        return x
    old, goal = x.shape_or_none, shape.const_or_none()
    if old is not None and goal is not None:
        wide = [1] * (rank - length) + goal.tolist()
        counts = [want if have == 1 else 1 for have, want in zip(old, wide, strict=True)]
        return x if set(counts) == {1} else op.Tile(x, op.const(counts))
    repeated = repeated_to(op, x, shape, _goal(shape))
    if repeated is not None:
        return repeated
    times = padded_shape(op, shape, rank)
    equal = op.Equal(op.Shape(x), op.const([1] * rank))
    each = op.Cast(equal, to=T.INT64) * times
    return op.Tile(x, each + op.Cast(~equal, to=T.INT64))


def _goal(shape: Value) -> Dims:
    """Returns the known elements of a shape vector: numbers and symbolic dimensions."""
    goal, measured = shape.const_or_none(), shape.producer
    if goal is not None:
        return tuple(goal.tolist())
    x = measured.inputs[0] if measured is not None and measured.op == "Shape" else None
    dims = x and x.dims_or_none
    return (None,) * shape.shape[0] if dims is None else dims


def _nowhere(op: Builder, shape: Value) -> Value:
    """Returns a tensor of false values in a computed shape of any rank."""
    measured = shape.producer
    x = measured.inputs[0] if measured is not None and measured.op == "Shape" else None
    kind = x and x.elem_type_or_none
    if x is None or kind in (None, T.STRING, T.COMPLEX64, T.COMPLEX128):
        return _false(op, shape)
    if kind == T.BOOL:
        return x & ~x
    real = x if kind in FLOATS else op.Cast(x, to=T.FLOAT)
    return real < real


def _false(op: Builder, shape: Value) -> Value:
    """Writes a tensor of false values as Tile, which gets an axis more if the rank is unknown."""
    if shape.shape_or_none is not None:
        return op.Tile(op.const(np.zeros([1] * shape.shape[0]), T.BOOL), shape)
    sizes = op.Concat(op.const([1]), shape, axis=0)
    false = op.Reshape(op.const([False], T.BOOL), sizes * op.const([0]) + op.const([1]))
    return op.Squeeze(op.Tile(false, sizes), axes=[0])


def _stretched(op: Builder, x: Value, nowhere: Value) -> Value:
    """Broadcasts `x` with the shape of `nowhere`, by Or with false or by a product with ones."""
    kind = x.elem_type
    if kind == T.BOOL:
        return x | nowhere
    if kind not in (*FLOATS, *INTS):
        reason = f"the rank of {x.name!r} or the length of its new shape is unknown"
        raise Refusal(Why.NEEDS_RANK, f"{reason}, and no operator broadcasts this element type")
    wide = T.INT32 if kind in SMALL_INTS else kind
    product = as_type(op, x, wide) * op.Cast(~nowhere, to=wide)
    return as_type(op, product, kind)


@adapter("Reshape", 4, 5, ignores={"consumed_inputs": "`consumed_inputs` is a memory hint"})
def reshape_4_5(node: Node, op: Builder) -> Result:
    """Opset 5 made `shape` an input of Reshape; it was an attribute."""
    if not node.has("shape"):
        raise Refusal(Why.AMBIGUOUS, "Reshape without the attribute shape is not defined")
    shape = op.const(node.ints("shape"))
    return op.same(node, inputs={"shape": shape}, shape=None, consumed_inputs=None)


@adapter("Reshape", 5, 4, handles_types=True)
def reshape_5_4(node: Node, op: Builder) -> Result:
    """Below opset 5, `shape` of Reshape is an attribute, and other types are cast to floats."""
    x, shape = node["data"], node["shape"]
    goal = _implied_shape(node)
    if goal is None:
        goal = shape.const().tolist()
    return moved(
        op, [x], lambda v, _: op.same(node, inputs={"data": v[0], "shape": None}, shape=goal)
    )


def _implied_shape(node: Node) -> list[int] | None:
    """Returns the value of a computed `shape` that the declared shape of the result implies."""
    x, result = node["data"].dims_or_none or (), node.outputs[0]
    if node["shape"].const_or_none() is not None or result is None:
        return None
    goal = []
    for i, size in enumerate(result.claimed_dims_or_none or (None, None)):
        same = isinstance(size, str) and i < len(x) and x[i] == size
        goal.append(size if isinstance(size, int) else 0 if same else -1)
    return goal if goal.count(-1) <= (0 not in goal) else None


@in_other_words("Flatten")
def two_axes(node: Node, op: Builder) -> Result:
    """Flatten is written as Reshape to two axes, if at most one of both sizes is unknown."""
    x, dims = node["input"], node["input"].dims
    axis = node.int("axis") % len(dims) if node.int("axis") < 0 else node.int("axis")
    sizes: list[int | None] = []
    for part_of in (dims[:axis], dims[axis:]):
        fixed = [size for size in part_of if isinstance(size, int)]
        sizes.append(math.prod(fixed) if len(fixed) == len(part_of) else None)
    result = reshaped(op, x, sizes)
    return KEEP if result is None else result


@in_other_words("Identity")
def same_shape(node: Node, op: Builder) -> Result:
    """Identity of a tensor is written as Reshape to its own shape."""
    x = node["input"]
    return KEEP if x.rank_or_none is None else op.Reshape(x, op.const([0] * x.rank, T.INT64))


@in_other_words("Size")
def product_of_sizes(node: Node, op: Builder) -> Result:
    """Size is written as the product of the output of Shape."""
    return op.Squeeze(count_elements(op, op.Shape(node["data"])), axes=[0])


@in_other_words("Shape")
def known_shape(node: Node, op: Builder) -> Result:
    """Shape of a tensor of known sizes is written as a constant."""
    shape = node["data"].shape_or_none
    if shape is None or op.version < 9:
        return KEEP  # below opset 9, Constant accepts only floats
    start, end = (node.int("start"), node.attr("end")) if op.version >= 15 else (0, None)
    return op.Constant(value=np.array(shape, np.int64)[start:end])
