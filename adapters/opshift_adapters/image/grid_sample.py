# SPDX-License-Identifier: Apache-2.0
"""GridSample: opset 16 added it, opset 20 renamed its modes and added other ranks."""

import functools
import math

from opshift.adapter import (
    Array,
    Builder,
    Node,
    Refusal,
    Result,
    T,
    Value,
    Why,
    adapter,
    boundary,
    by_width,
    in_other_words,
    misread,
    np,
)
from opshift.combinators import cast_around

from opshift_adapters._lib.blocks import arange, column, count_elements, part, size_of
from opshift_adapters._lib.kinds import FLOATS, as_type
from opshift_adapters._lib.sampling import takes_nearest

ROUNDED = by_width("GridSample", unless=takes_nearest)  # interpolated integers are rounded
GRID_SAMPLE_22 = boundary(22, "GridSample:d255c0", cast=cast_around("float"))
NEW_NAMES = {"bilinear": "linear", "bicubic": "cubic"}
OLD_NAMES = {new: old for old, new in NEW_NAMES.items()}


@adapter("GridSample", 19, 20)
def grid_sample_19_20(node: Node, op: Builder) -> Result:
    """Opset 20 renamed the modes bilinear and bicubic of GridSample to linear and cubic."""
    mode = node.str("mode") if node.has("mode") else None
    return op.same(node, mode=NEW_NAMES.get(mode, mode) if mode else None)


FEW_CHANNELS = 8  # up to this number, an index per channel is faster than an index for all channels


@adapter("GridSample", 20, 19)
def grid_sample_20_19(node: Node, op: Builder) -> Result:
    """Below opset 20, GridSample of a rank other than 4 is rewritten, and modes are renamed."""
    x, grid = node["X"], node["grid"]
    rank = x.rank_or_none or grid.rank
    mode = OLD_NAMES.get(node.str("mode"), node.str("mode"))
    if rank == 4:
        return op.same(node, mode=mode)
    if rank != 3:
        return _sampled(node, op, node.str("mode"), rank)
    row = op.const([2])
    high = op.Pad(grid, op.const([0, 0, 0, 0, 0, 1]))
    inputs = {"X": op.Unsqueeze(x, row), "grid": op.Unsqueeze(high, op.const([1]))}
    return op.Squeeze(op.same(node, inputs=inputs, mode=mode), row)


@misread("GridSample", "onnxruntime 1.11..1.16", source="2026-11-23 1.13..1.17: 18 forms", since=16)
def is_cubic_with_a_border(node: Node) -> bool:
    """GridSample of mode bicubic with padding_mode border returns wrong numbers."""
    return node.str("mode") in ("bicubic", "cubic") and node.str("padding_mode") == "border"


@adapter("GridSample", 16, 15)
def grid_sample_16_15(node: Node, op: Builder) -> Result:
    """Opset 16 added GridSample; below opset 16, a weighted sum of gathered elements is written."""
    mode = NEW_NAMES.get(node.str("mode"), node.str("mode"))
    return _sampled(node, op, mode, 4)


@in_other_words("GridSample")
def grid_sample_in_other_words(node: Node, op: Builder) -> Result:
    """GridSample of any rank is written as a weighted sum of gathered elements."""
    mode = NEW_NAMES.get(node.str("mode"), node.str("mode"))
    return _sampled(node, op, mode, node["X"].rank_or_none or node["grid"].rank)


def _sampled(node: Node, op: Builder, mode: str, rank: int) -> Value:
    """Writes GridSample as one Gather of all elements around all positions, and one sum.

    Axis 0 of the nodes has the coordinates, the last axis of the image first. Axis 1 has the taps:
    the elements along one image axis that the mode reads. The sum has all combinations of taps on
    one axis, because some runtimes do not support rank 6. Positions are on the last axes, because
    runtimes are slow if a short last axis is broadcast.
    """
    x, grid, kind = node["X"], node["grid"], node["X"].elem_type
    if mode != "nearest" and kind not in FLOATS:
        raise Refusal(
            Why.AMBIGUOUS,
            "no specification defines the rounding of integers that GridSample interpolates",
        )
    if node.str("padding_mode") == "zeros" and kind == T.STRING:
        raise Refusal(Why.AMBIGUOUS, "no specification defines which string GridSample pads with")
    work = _position_type(node)
    widened = mode != "nearest" and kind != work
    data = op.Cast(x, to=work) if widened else x
    places = op.Transpose(as_type(op, grid, work), perm=[rank - 1, *range(rank - 1)])
    sizes = _sizes(op, x, rank)
    at = _positions(node, op, places, op.Cast(column(op, sizes, rank, 0), to=work), work)
    read = _read_nearest if mode == "nearest" else _read_around
    total = read(node, op, data, at, sizes, mode)
    return op.Cast(total, to=kind) if widened else total


def _position_type(node: Node) -> int:
    """Returns the element type in which positions and weights are computed."""
    return T.DOUBLE if node["X"].elem_type == T.DOUBLE else T.FLOAT


def _sizes(op: Builder, x: Value, rank: int) -> Value:
    """Returns the spatial sizes of `x`, last axis first."""
    dims = x.dims_or_none
    if dims is not None and all(isinstance(size, int) for size in dims[2:]):
        return op.const([size for size in reversed(dims[2:]) if isinstance(size, int)])
    return op.Gather(op.Shape(x), op.const(list(range(rank - 1, 1, -1))), axis=0)


def _positions(node: Node, op: Builder, place: Value, size: Value, kind: int) -> Value:
    """Converts coordinates between -1 and 1 to fractional indices of the tensor."""
    one, two = op.const(1, kind), op.const(2, kind)
    if node.int("align_corners"):
        return (place + one) / two * (size - one)
    return ((place + one) * size - one) / two


def _read_nearest(
    node: Node, op: Builder, data: Value, at: Value, sizes: Value, mode: str
) -> Value:
    """Returns the element nearest to each position."""
    count = sizes.shape[0]
    index, outside = _cells(node, op, op.Round(at), column(op, sizes, count + 2, 0))
    steps = index * column(op, _strides(op, sizes), count + 2, 0)
    columns = [op.Gather(steps, op.const(i), axis=0) for i in range(count)]
    elements = _elements(op, node["X"], data, functools.reduce(op.Add, columns), sizes, 0)
    if outside is None:
        return elements
    away = functools.reduce(op.Or, [op.Gather(outside, op.const(i), axis=0) for i in range(count)])
    return op.Where(op.Unsqueeze(away, op.const([1])), op.const(0, like=data), elements)


def _read_around(node: Node, op: Builder, data: Value, at: Value, sizes: Value, mode: str) -> Value:
    """Returns the weighted sum of elements around each position, without those of weight 0."""
    kind, count = data.elem_type, sizes.shape[0]
    at = op.Unsqueeze(at, op.const([1]))
    base = op.Floor(at)
    taps = np.arange(-1, 3) if mode == "cubic" else np.arange(2)
    taps = taps.reshape(-1, *[1] * (count + 1))
    weights = _weights(op, at - base, taps, kind)
    index, outside = _cells(node, op, base + taps, column(op, sizes, count + 3, 0))
    if outside is not None:
        weights = op.Where(outside, op.const(0, kind), weights)
    steps = index * column(op, _strides(op, sizes), count + 3, 0)
    spread = functools.partial(_every_tap, op, count=count, taps=len(taps))
    place = functools.reduce(op.Add, [spread(steps, i) for i in range(count)])
    weight = functools.reduce(op.Mul, [spread(weights, i) for i in range(count)])
    if (shape := _shape_of_few_channels(node)) is not None:
        return _sum_of_few_channels(op, data, place, weight, shape)
    elements = _elements(op, node["X"], data, place, sizes, 1)
    weight = op.Unsqueeze(weight, op.const([2]))
    counted = op.Where(op.Cast(weight, to=T.BOOL), elements * weight, op.const(0, kind))
    return op.ReduceSum(counted, op.const([0]), keepdims=0)


def _shape_of_few_channels(node: Node) -> list[int] | None:
    """Returns the shape of the result if it is known: one image with few channels; else None."""
    x, grid = node["X"].shape_or_none, node["grid"].shape_or_none
    if x is None or grid is None or x[0] != 1 or not 0 < x[1] <= FEW_CHANNELS:
        return None
    shape = [*x[:2], *grid[1:-1]]
    return shape if math.prod(x) and math.prod(shape) else None


def _sum_of_few_channels(
    op: Builder, data: Value, place: Value, weight: Value, shape: list[int]
) -> Value:
    """Returns the weighted sum by GatherElements per channel, which is fast for few channels."""
    channels, positions, taps = shape[1], math.prod(shape[2:]), place.shape[0]
    lines = op.Reshape(data, op.const([channels, -1]))
    place = op.Expand(op.Reshape(place, op.const([1, -1])), op.const([channels, taps * positions]))
    reshaped = op.Reshape(
        op.GatherElements(lines, place, axis=1), op.const([channels, taps, positions])
    )
    weight = op.Reshape(weight, op.const([taps, positions]))
    zero = op.const(0, like=weight)
    counted = op.Where(op.Cast(weight, to=T.BOOL), reshaped * weight, zero)
    total = op.ReduceSum(counted, op.const([1]), keepdims=0)
    return op.Reshape(total, op.const(shape))


def _weights(op: Builder, off: Value, taps: Array, kind: int) -> Value:
    """Returns the weight of each tap; `off` is the distance of a position from tap 0."""
    if len(taps) == 2:
        return op.Abs(1 - taps - off)
    distance = op.Abs(taps - off)
    a = -0.75
    inner, outer = (a + 2, -(a + 3), 0.0, 1.0), (a, -5 * a, 8 * a, -4 * a)
    total, *factors = (
        op.const(np.reshape(each, taps.shape), kind)
        for each in zip(outer, inner, inner, outer, strict=True)
    )
    for factor in factors:
        total = total * distance + factor
    return total


def _cells(node: Node, op: Builder, at: Value, sizes: Value) -> tuple[Value, Value | None]:
    """Returns the element index for each integer position, and whether the position is outside."""
    kind = _position_type(node)
    zero, outside = op.const(0, kind), None
    last = op.Cast(sizes, to=kind) - 1
    if node.str("padding_mode") == "zeros":
        outside = (at < zero) | (at > last)
    elif node.str("padding_mode") == "reflection":
        at = _reflected(node, op, at, last, kind)
    inside = op.Cast(op.Min(op.Max(at, zero), last), to=T.INT64)
    return op.Max(inside, op.const(0)), outside  # for NaN, any element may be read


def _strides(op: Builder, sizes: Value) -> Value:
    """Returns the stride of each spatial axis in the flattened image."""
    strides = [op.const([1])]
    for axis in range(sizes.shape[0] - 1):
        strides.append(strides[-1] * part(op, sizes, axis, axis + 1))
    return op.Concat(*strides, axis=0)


def _elements(op: Builder, x: Value, data: Value, place: Value, sizes: Value, front: int) -> Value:
    """Gathers elements at `place`, with `front` axes before the image axis, channels after it."""
    count = sizes.shape[0]
    if (x.dims_or_none or (None,))[0] != 1:
        first = arange(op, size_of(op, x, 0)) * count_elements(op, sizes)
        place = place + column(op, first, count + 1, 0)
    last = op.Transpose(data, perm=[0, *range(2, count + 2), 1])
    gathered = op.Gather(op.Flatten(last, axis=count + 1), place, axis=0)
    spatial = range(front + 1, front + 1 + count)
    return op.Transpose(gathered, perm=[*range(front + 1), front + 1 + count, *spatial])


def _every_tap(op: Builder, values: Value, number: int, count: int, taps: int) -> Value:
    """Repeats the values of a coordinate, so that one axis has all combinations of taps."""
    which = np.arange(taps**count) // taps**number % taps
    return op.Gather(op.Gather(values, op.const(number), axis=0), op.const(which), axis=0)


def _reflected(node: Node, op: Builder, at: Value, last: Value, kind: int) -> Value:
    """Reflects positions at both edges of the axis until they are inside."""
    if node.int("align_corners"):
        low = op.const(0, kind)
        span = op.Max(last, op.const(0.5, kind))  # for one element, any span is right
    else:
        low, span = op.const(-0.5, kind), last + 1
    there_and_back = span * 2
    way = at - low
    way = way - way // there_and_back * there_and_back
    return low + op.Min(way, there_and_back - way)
