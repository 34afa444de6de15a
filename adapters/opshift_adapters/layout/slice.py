# SPDX-License-Identifier: Apache-2.0
"""Slice: bounds are attributes below opset 10, and inputs with steps from opset 10 on."""

import functools
from collections.abc import Sequence

from opshift.adapter import (
    KEEP,
    Array,
    Builder,
    InvalidModel,
    Node,
    Result,
    T,
    Value,
    adapter,
    alternative,
    boundary,
    form,
    misread,
    np,
)

from opshift_adapters._lib.axes import in_order
from opshift_adapters._lib.blocks import END, arange, counted_axis, part, shape_of
from opshift_adapters._lib.kinds import as_type, in_double
from opshift_adapters._lib.makers import maker

TYPES_13 = boundary(13, "Slice:2a2b15")
SLICE_11_UP = boundary(11, "Slice:8c259c", directions="up")


@adapter("Slice", 11, 10)
def slice_11_10(node: Node, op: Builder) -> Result:
    """Below opset 11, `axes` of Slice must not be negative; the rank is added to negative axes."""
    x, axes = node["data"], node.input("axes")
    constant = axes and axes.const_or_none()
    if axes is None or (constant is not None and (constant >= 0).all()):
        return KEEP
    if constant is not None and x.rank_or_none is not None:
        return op.same(node, inputs={"axes": op.const(constant % x.rank)})
    rank = op.Shape(op.Shape(x))
    if axes.elem_type != T.INT64:
        rank = op.Cast(rank, to=axes.elem_type)
    negative = axes < 0
    return op.same(node, inputs={"axes": op.Where(negative, axes + rank, axes)})


@form("Slice")
def axes_in_order(node: Node, op: Builder) -> Result:
    """The `axes` of Slice become ascending and non-negative; some runtimes require this form."""
    return KEEP if op.version < 10 else in_order(node, op, ("starts", "ends", "steps"))


@misread("Slice", "onnxruntime 1.1..1.32", source="2026-11-30 14 releases: 11 nodes", since=10)
def ends_at_the_largest(node: Node) -> bool:
    """{op} backwards with the largest int32 or int64 as its end reads up to the front."""
    return bool(_reads_to_the_front(node).any())


@misread("Slice", "onnxruntime 1.0..1.9", source="2026-11-30 1.0..1.10: 24 bounds", since=10)
def starts_in_an_empty_axis(node: Node) -> bool | None:
    """{op} backwards from a negative start reads beyond an empty axis."""
    back, dims, named = _starts_negative(node), node["data"].dims_or_none, node.input("axes")
    axes = np.arange(back.size) if named is None or not back.any() else named.const().ravel()
    sizes = [dims[at] if dims else None for at in axes[back]]
    return 0 in sizes or (False if all(isinstance(size, int) for size in sizes) else None)


@alternative("Slice", runtime="onnxruntime==1.10")
def within_the_axis(node: Node, op: Builder) -> Result:
    """Slice backwards starts at the largest integer instead of -1, and ends below the largest."""
    if op.version < 10:
        return KEEP  # pragma: no cover: all measured releases read bounds in attributes
    start, end, back = node["starts"], node["ends"], _starts_negative(node)
    if _reads_to_the_front(node).any():
        end = op.const(end.const() - _reads_to_the_front(node), like=end)
    if back.any():
        last, (_, largest) = start.const() == -1, T(start.elem_type).element.limits
        start = op.const(np.where(back & last, largest, start.const()), like=start)
    return op.same(node, inputs={"starts": start, "ends": end})


def _is_backwards(node: Node) -> Array:
    """Returns for each axis whether its constant step is negative."""
    steps = node.input("steps")
    constant = steps and steps.const_or_none()
    return np.zeros(1, bool) if constant is None else constant < 0


def _starts_negative(node: Node) -> Array:
    starts = node["starts"].const_or_none()
    return _is_backwards(node) & (starts is not None and starts < 0)


def _reads_to_the_front(node: Node) -> Array:
    """Returns for each axis whether its constant end is the largest integer and its step < 0."""
    ends = node["ends"].const_or_none()
    return _is_backwards(node) & np.isin(0 if ends is None else ends, (2**31 - 1, 2**63 - 1))


@adapter("Slice", 10, 9)
def slice_10_9(node: Node, op: Builder) -> Result:
    """Below opset 10, Slice has constant bounds and no steps; others need Compress or Gather."""
    x, named = node["data"], node.input("axes")
    bounds = [node["starts"], node["ends"], node.input("steps")]
    places = named and named.const_or_none()
    if named is not None and places is None and x.rank_or_none is None:
        places = _before_the_rank_was_added(named, x)
    if named is None:
        axes = list(range(node["starts"].shape[0]))
    elif places is None:
        axes = list(range(x.rank))
        bounds = _of_all_axes(op, bounds, named, x.rank)
    else:
        axes = [int(axis) for axis in places.ravel()]
    lists = [_listed(value, len(axes)) for value in bounds]
    starts, ends, steps = lists
    from_end = x.rank_or_none is None and min(axes, default=0) < 0
    if starts is not None and ends is not None and steps == [1] * len(axes) and not from_end:
        inputs = dict.fromkeys(("starts", "ends", "axes", "steps"))
        return op.same(node, inputs=inputs, starts=starts, ends=ends, axes=axes)
    wide: list[Value | None] = []  # the computed bounds as doubles, cast once for all axes
    turned = False  # whether the axes of x are in reverse order
    for i, at in enumerate(axes):
        if (from_end and at < 0) is not turned:
            x, turned = op.Transpose(x), not turned
        axis = -1 - at if turned else counted_axis(x, at)
        start, end, step = (None if numbers is None else numbers[i] for numbers in lists)
        size = x.dims_or_none[axis] if x.dims_or_none is not None else None
        if start is not None and end is not None and step == 1:
            x = op.Slice(x, starts=[start], ends=[end], axes=[axis])
        elif start is None or end is None or step is None or not isinstance(size, int):
            listed = places is not None or named is None
            ahead = [listed and _never_negative(node[name], i) for name in ("starts", "ends")]
            if step == 1:
                ends_of = zip(bounds[:2], lists[:2], strict=True)
                x = _compressed(
                    op, x, axis, [_one(op, v, k, i, T.INT64) for v, k in ends_of], ahead
                )
            else:
                wide = wide or [v and op.Cast(v, to=T.DOUBLE) for v in bounds]
                all_of = zip(wide, lists, strict=True)
                x = _gathered(op, x, axis, [_one(op, v, k, i, T.DOUBLE) for v, k in all_of], ahead)
        else:
            x = op.Gather(x, _indices(op, start, end, step, size), axis=axis)
    return op.Transpose(x) if turned else x


def _before_the_rank_was_added(axes: Value, x: Value) -> Array | None:
    """Returns constant axes that slice_11_10 made non-negative with the computed rank of `x`."""
    chosen = maker(axes, "Where")
    total = chosen and maker(chosen["X"], "Add")
    if chosen is None or total is None:
        return None
    negative, own, kept = (
        one.const_or_none() for one in (chosen["condition"], total["A"], chosen["Y"])
    )
    if own is None or negative is None or kept is None or (negative != (kept < 0)).any():
        return None
    cast = maker(total["B"], "Cast")
    rank = maker(total["B"] if cast is None else cast["input"], "Shape")
    shape = rank and maker(rank["data"], "Shape")
    same = (own == kept).all()
    return kept if same and shape and shape["data"].is_same(x) else None


def _of_all_axes(
    op: Builder, bounds: Sequence[Value | None], axes: Value, rank: int
) -> list[Value | None]:
    """Returns bounds for all axes; the bounds of an axis outside of `axes` keep all elements."""
    axes = op.Cast(axes, to=T.INT64)
    neutral = (op.const([fill] * rank) for fill in (0, END, 1))
    return [
        op.Scatter(nothing, axes, op.Cast(value, to=T.INT64), axis=0) if value else None
        for nothing, value in zip(neutral, bounds, strict=True)
    ]


def _listed(value: Value | None, length: int) -> list[int] | None:
    """Returns the numbers of an input if they are constant, else None; missing steps are 1."""
    if value is None:
        return [1] * length
    found = value.const_or_none()
    if found is not None and found.size != length:
        raise InvalidModel(f"{value.name!r} has {found.size} numbers for {length} axes of a Slice")
    return None if found is None else [int(v) for v in found.ravel()]


def _indices(op: Builder, start: int, end: int, step: int, size: int) -> Value:
    """Returns the indices that Slice picks along an axis of this size."""
    back = int(step < 0)
    start = min(max(start + size if start < 0 else start, 0), size - back)
    end = min(max(end + size if end < 0 else end, -back), size - back)
    picked = range(start, end, step)
    if len(picked) <= LONGEST_CONSTANT:
        return op.const(np.array(picked, dtype=np.int64))
    return op.const([start]) + arange(op, op.const([len(picked)])) * op.const([step])


def _one(op: Builder, values: Value | None, known: list[int] | None, i: int, kind: int) -> Value:
    """Returns the bound at index `i` as a vector of one element of type `kind`."""
    if known is not None:
        return op.const([known[i]], kind)
    assert values is not None
    return as_type(op, values if values.shape_or_none == (1,) else part(op, values, i, i + 1), kind)


def _never_negative(places: Value, i: int) -> bool:
    """Returns whether the bound at index `i` is known to be non-negative."""
    bounds = places.bounds_or_none
    if bounds is None or not bounds.each:
        return bounds is not None and bounds.never_negative
    return bool(bounds.low.flat[i] >= 0)


LONGEST_LISTED = 4096  # the indices of a longer axis are not written as a constant
BEYOND = 1 << 41  # a step beyond the end of every axis, because no axis is longer than 2**40
LONGEST_CONSTANT = 1 << 20  # more indices are computed, although that takes more nodes


def _compressed(
    op: Builder, x: Value, axis: int, bounds: Sequence[Value], ahead: Sequence[bool]
) -> Value:
    """Writes Compress from start to end; `ahead` states which of both are not negative."""
    size = _size_along(op, x, axis)
    start, end = (
        place if known else _wrapped(op, place, size)
        for place, known in zip(bounds, ahead, strict=True)
    )
    length, low, high = (one.const_or_none() for one in (size, start, end))
    if (length is None or length > LONGEST_LISTED) and low == 0 and ahead[1]:
        count = op.Where(size < end, size, end)
        every = op.ConstantOfShape(count, value=np.array([True]))
        return op.Compress(x, every, axis=axis)
    places, conditions = _places(op, size), []
    if high is None or high.item() != END:
        conditions.append(places < end)
    one = op.const([1])
    if low is None:
        conditions.append(start < places + one)
    elif low.item() > 0:
        conditions.append(start - one < places)
    return op.Compress(x, functools.reduce(op.And, conditions), axis=axis)


def _size_along(op: Builder, x: Value, axis: int) -> Value:
    """Returns an axis size as a vector that onnx's inference knows to have one element."""
    if x.rank_or_none is None:
        return op.Gather(op.Shape(x), op.const([axis]), axis=0)
    return part(op, shape_of(op, x), axis, axis + 1)


def _places(op: Builder, size: Value) -> Value:
    """Returns the indices along an axis as a vector: a constant, or computed for a long axis."""
    constant = size.const_or_none()
    if constant is not None and constant <= LONGEST_LISTED:
        return op.const(np.arange(constant.item()))
    ones = op.ConstantOfShape(size, value=np.array([1]))
    return op.Reshape(op.NonZero(ones), op.const([-1]))


def _gathered(
    op: Builder, x: Value, axis: int, bounds: Sequence[Value], ahead: Sequence[bool]
) -> Value:
    """Writes Gather with indices that nodes compute in double from computed bounds.

    A double represents each position in a tensor and keeps the order of all integers. Steps are
    limited, so that every position stays exact in double. `ahead` states which of start and end are
    known to be non-negative.
    """
    size = in_double(op, _size_along(op, x, axis))
    start, end, step = bounds
    start, end = (
        place if known else _wrapped(op, place, size, double=True)
        for place, known in zip((start, end), ahead, strict=True)
    )
    zero, one = op.const([0], T.DOUBLE), op.const([1], T.DOUBLE)
    back = op.Cast(step < zero, to=T.DOUBLE)
    high = size - back
    start, end = _clamped(op, start, zero, high), _clamped(op, end, -back, high)
    step = _clamped(op, step, op.const([-BEYOND], T.DOUBLE), op.const([BEYOND], T.DOUBLE))
    last = end - start + (back + back - one)
    count = op.Cast(op.Max((last + step) / step, zero), to=T.INT64)
    places = start + in_double(op, arange(op, count)) * step
    return op.Gather(x, op.Cast(places, to=T.INT64), axis=axis)


def _wrapped(op: Builder, place: Value, size: Value, *, double: bool = False) -> Value:
    constant = place.const_or_none()
    if constant is not None and constant < 0:
        return place + size
    if double:
        return place + size * op.Cast(place < op.const([0], T.DOUBLE), to=T.DOUBLE)
    return op.Where(place < op.const([0]), place + size, place)


def _clamped(op: Builder, value: Value, low: Value, high: Value) -> Value:
    """Limits the value to the range from `low` to `high`; returns `high` if `low` is larger."""
    return op.Min(op.Max(value, low), high)


@adapter("Slice", 9, 10)
def slice_9_10(node: Node, op: Builder) -> Result:
    """Opset 10 made `starts`, `ends` and `axes` inputs of Slice; they were attributes."""
    starts, ends = node.ints("starts"), node.ints("ends")
    axes = node.ints_or_none("axes") or list(range(len(starts)))
    inputs = {"starts": op.const(starts), "ends": op.const(ends), "axes": op.const(axes)}
    return op.same(node, inputs=inputs, starts=None, ends=None, axes=None)
