# SPDX-License-Identifier: Apache-2.0
"""Compress, NonZero, OneHot and ReverseSequence, which select by a condition or an index."""

from opshift.adapter import (
    KEEP,
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
    form,
    in_other_words,
    misread,
    np,
)
from opshift.combinators import cast_around, positive_axis

from opshift_adapters._lib.blocks import add_where_negative, arange, size_of
from opshift_adapters._lib.kinds import FLOATS, UNSIGNED, as_type


def true_positions(op: Builder, mask: Value) -> Value:
    """Returns the indices of the true elements of a vector, at opset 8."""
    total = op.ReduceSum(op.Cast(mask, to=T.DOUBLE), axes=[0], keepdims=0)
    count = op.Cast(total, to=T.INT64)
    one, going = op.const(1), op.const(True, T.BOOL)

    def is_false(b: Builder, at: Value) -> Value:
        return ~b.Gather(mask, at, axis=0)

    def advance(b: Builder, i: Value, keep: Value, at: Value) -> tuple[Value, Value]:
        following = at + one
        return is_false(b, following), following

    def collect(b: Builder, i: Value, keep: Value, at: Value) -> tuple[Value, Value, Value]:
        body = b.graph(advance, (T.INT64, ()), (T.BOOL, ()), (T.INT64, ()))
        found = b.Cast(b.Loop(None, is_false(b, at), at, body=body), to=T.INT64)  # types it
        return b.Identity(keep), found + one, found

    body = op.graph(collect, (T.INT64, ()), (T.BOOL, ()), (T.INT64, ()))
    found = op.Loop(count, going, op.const(0), body=body, outputs=2)[1]
    return op.Reshape(op.Cast(found, to=T.INT64), op.const([-1]))  # declares the type and the rank


@adapter("NonZero", 9, 8, ignores={"X": "the result is a constant"}, in_other_words=True)
def non_zero_9_8(node: Node, op: Builder) -> Result:
    """Below opset 9, NonZero is written as a Loop that collects the indices."""
    (result,) = node.outputs
    if result is not None and (constant := result.const_or_none()) is not None:
        return op.const(constant)
    x = node["X"]
    if x.elem_type in (T.STRING, T.COMPLEX64, T.COMPLEX128):
        raise Refusal(Why.NOT_EXPRESSIBLE, "NonZero of this type is impossible at opset 8")
    flat = op.Reshape(x, op.const([-1]))
    rest = true_positions(op, as_type(op, flat, T.BOOL))
    if x.rank == 0:
        return op.Slice(op.Unsqueeze(rest, axes=[0]), starts=[0], ends=[0], axes=[0])
    rows = []
    for axis in range(x.rank - 1, 0, -1):
        size = _at_least_one(op, size_of(op, x, axis))
        above = rest / size
        rows.append(rest - above * size)
        rest = above
    return op.Concat(*(op.Unsqueeze(r, axes=[0]) for r in (rest, *reversed(rows))), axis=0)


@misread("NonZero", "onnxruntime 0.4..1.32", source="2026-11-30 1.0..1.32: 3 types, 3 opsets")
def finds_in_a_scalar(node: Node) -> bool:
    """NonZero of a scalar returns one row of indices instead of none."""
    return node["X"].rank_or_none == 0


def _at_least_one(op: Builder, size: Value) -> Value:
    """Returns a size of at least 1, because runtimes refuse to divide by 0."""
    constant = size.const_or_none()
    if constant is not None:
        return op.const(max(int(constant), 1))
    return size + op.Cast(op.Equal(size, op.const(0)), to=T.INT64)


NON_ZERO_13 = boundary(13, "NonZero:52cff1")


@adapter("Compress", 9, 8, in_other_words=True)
def compress_9_8(node: Node, op: Builder) -> Result:
    """Below opset 9, Compress is written as a Gather of the selected indices."""
    x, condition, axis = node["input"], node["condition"], node.attr("axis")
    if axis is None:
        x = op.Reshape(x, op.const([-1]))
    known = condition.const_or_none()
    chosen = true_positions(op, condition) if known is None else op.const(np.flatnonzero(known))
    return op.Gather(x, chosen, axis=axis or 0)


COMPRESS_11 = boundary(11, "Compress:688b4d", down=positive_axis())


@adapter("OneHot", 9, 8)
def one_hot_9_8(node: Node, op: Builder) -> Result:
    """Below opset 9, OneHot becomes Equal of indices and class numbers, and Gather of values."""
    indices, axis = node["indices"], node.int("axis")
    rank = indices.rank
    axis += rank + 1 if axis < 0 else 0
    slots = arange(op, _whole_scalar(op, node["depth"]))
    if axis < rank:
        slots = op.Unsqueeze(slots, axes=list(range(1, rank - axis + 1)))
    places = op.Unsqueeze(as_type(op, indices, T.INT64), axes=[axis])
    return op.Gather(node["values"], op.Cast(op.Equal(places, slots), to=T.INT32), axis=0)


def _cut_below_zero(op: Builder, x: Value) -> Value | None:
    """Returns whether a float index is negative after truncation; None for integers."""
    return ~(x > -1.0) if x.elem_type_or_none in FLOATS else None


def _whole_scalar(op: Builder, x: Value) -> Value:
    """Returns the depth of OneHot, a scalar or a vector of one element, as an int64 scalar."""
    constant = x.const_or_none()
    if constant is not None:
        return op.const(int(constant.flat[0]))
    return as_type(op, x if x.rank_or_none == 0 else op.Reshape(x, op.const([])), T.INT64)


def _counts_from_the_front(indices: Value) -> bool:
    """Returns whether all indices are known not to be negative."""
    if indices.elem_type_or_none in UNSIGNED:
        return True
    constant = indices.const_or_none()
    return constant is not None and not (constant < 0).any()


@form("OneHot")
def depth_in_a_vector(node: Node, op: Builder) -> Result:
    """OneHot below opset 11 gets a vector as depth, because onnxruntime 0.4 rejects a scalar."""
    constant = node["depth"].const_or_none() if op.version < 11 else None
    if constant is None or constant.ndim:
        return KEEP
    return op.same(node, inputs={"depth": op.const(constant.reshape(1))})


@misread("OneHot", "onnxruntime 0.4..1.32", source="2026-11-30 1.2..1.32: 2 opsets, 2 axes")
def has_a_scalar_index(node: Node) -> bool:
    """OneHot of a scalar does not load."""
    return node["indices"].rank == 0


@alternative("OneHot", runtime="onnxruntime==0.4")
def indices_and_depth_as_values(node: Node, op: Builder) -> Result:
    """OneHot gets a vector of indices, and float indices and depth for float values."""
    indices, depth, values = node["indices"], node["depth"].const_or_none(), node["values"]
    if indices.rank_or_none == 0:
        row = op.same(node, inputs={"indices": op.Reshape(indices, op.const([1]))}, axis=None)
        return op.Reshape(row, op.const([-1]))
    if depth is None or depth.max() >= 2**24 or values.elem_type_or_none != T.FLOAT:
        return KEEP
    wide = op.const(depth.astype(np.float32))
    return op.same(node, inputs={"indices": op.Cast(indices, to=T.FLOAT), "depth": wide})


@adapter("OneHot", 10, 11)
def one_hot_10_11(node: Node, op: Builder) -> Result:
    """From opset 11 on, OneHot counts negative indices from the end; depth replaces old ones."""
    if _counts_from_the_front(node["indices"]):
        return KEEP
    depth, indices = _whole_scalar(op, node["depth"]), as_type(op, node["indices"], T.INT64)
    below = _cut_below_zero(op, node["indices"])
    outside = add_where_negative(op, indices, depth - indices, below)
    return op.same(node, inputs={"indices": outside})


@adapter("OneHot", 11, 10)
def one_hot_11_10(node: Node, op: Builder) -> Result:
    """Below opset 11, OneHot has no negative indices; the depth is added to negative indices."""
    indices, axis = node["indices"], node.int("axis")
    if axis < -1:
        axis += indices.rank + 1
    if _counts_from_the_front(indices):
        return op.same(node, axis=axis)
    below = _cut_below_zero(op, indices)
    depth, indices = _whole_scalar(op, node["depth"]), as_type(op, indices, T.INT64)
    counted = add_where_negative(op, indices, depth, below)
    outside = add_where_negative(op, counted, depth - counted)
    return op.same(node, inputs={"indices": outside}, axis=axis)


@adapter("ReverseSequence", 10, 9, in_other_words=True)
def reverse_sequence_10_9(node: Node, op: Builder) -> Result:
    """Below opset 10, ReverseSequence is written as a Gather with reversed indices."""
    x, time_axis, batch_axis = node["input"], node.int("time_axis"), node.int("batch_axis")
    time = op.Unsqueeze(arange(op, size_of(op, x, time_axis)), axes=[batch_axis])
    batch = op.Unsqueeze(arange(op, size_of(op, x, batch_axis)), axes=[time_axis])
    length = op.Unsqueeze(node["sequence_lens"], axes=[time_axis])
    mirrored = length - op.const(1) - time
    source = op.Where(time < length, mirrored, time)
    first, second = (source, batch) if time_axis == 0 else (batch, source)
    place = first * size_of(op, x, 1) + second
    return op.Reshape(op.Gather(op.Flatten(x, axis=2), place, axis=0), op.Shape(x), allowzero=1)


CHOOSING_28 = boundary(
    28, "Compress:31d097 OneHot:d0aa0a ReverseSequence:c42913", cast=cast_around("float")
)


@in_other_words("OneHot")
def equal_places(node: Node, op: Builder) -> Result:
    """OneHot is written as Equal of indices and class numbers, and Where for the values."""
    indices, depth = node["indices"], node["depth"].const_or_none()
    if op.version < 11 or depth is None or indices.rank_or_none is None:
        return KEEP
    count, axis = int(depth.flat[0]), node.int("axis") % (indices.rank + 1)
    whole = as_type(op, indices, T.INT64)
    if not _counts_from_the_front(indices):
        below = _cut_below_zero(op, indices)
        whole = add_where_negative(op, whole, op.const(count), below)
    places = op.const(np.arange(count).reshape(-1, *[1] * (indices.rank - axis)))
    apart = op.Unsqueeze(whole, op.const([axis]))
    off, on = (op.Gather(node["values"], op.const(at), axis=0) for at in (0, 1))
    return op.Where(op.Equal(apart, places), on, off)
