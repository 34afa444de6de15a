# SPDX-License-Identifier: Apache-2.0
"""Resampling axis by axis with Gather and arithmetic, as Resize is defined."""

from dataclasses import dataclass, replace

from opshift.adapter import Array, Builder, Node, Refusal, T, Value, Why, np

from opshift_adapters._lib.blocks import arange, column, element, size_of
from opshift_adapters._lib.kinds import FLOATS, as_type


def takes_nearest(node: Node) -> bool:
    """Returns whether each result is an element of the input, not an interpolated number."""
    return node.str("mode") == "nearest"  # pragma: no cover: examples have kernels for their types


@dataclass(frozen=True, slots=True)
class Filter:
    """The attributes of Resize that select elements of the input and compute their weights."""

    mode: str
    places: str = "asymmetric"
    rounding: str = "floor"
    cubic: float = -0.75
    exclude_outside: bool = False
    extrapolation: float = 0.0
    smooth: bool = False


@dataclass(frozen=True, slots=True)
class ResampledAxis:
    """An axis to resample: the sizes before and after, the scale, and the region to crop."""

    axis: int
    old: Value
    new: Value
    scale: Value
    start: Value | None = None
    end: Value | None = None

    @property
    def idle(self) -> bool:
        """Returns whether the resampling is known to leave the axis unchanged."""
        whole = self.start is None or (_is(self.start, 0) and _is(self.end, 1))
        return whole and _is(self.scale, 1)


def _is(value: Value | None, number: float) -> bool:
    constant = value and value.const_or_none()
    return constant is not None and bool(constant == number)


def place_type(x: Value, mode: str) -> int:
    """Returns the element type of positions: double for interpolated doubles, else float."""
    return T.DOUBLE if mode != "nearest" and x.elem_type == T.DOUBLE else T.FLOAT


def scaled_line(op: Builder, x: Value, axis: int, scales: Value, kind: int) -> ResampledAxis:
    """Returns an axis that is resampled by its scale."""
    scale, old = element(op, scales, axis), size_of(op, x, axis)
    wide = op.Cast(old, to=T.FLOAT) * scale
    new = op.Cast(op.Floor(wide), to=T.INT64)
    return ResampledAxis(axis, old, new, as_type(op, scale, kind))


def scale_is_one(scales: Value, axis: int) -> bool:
    constant = scales.const_or_none()
    return constant is not None and bool(constant[axis] == 1)


def sized_line(op: Builder, x: Value, axis: int, sizes: Value, kind: int) -> ResampledAxis:
    """Returns an axis that is resampled to its new size."""
    new, old = element(op, sizes, axis), size_of(op, x, axis)
    have = old.const_or_none()
    if have is not None and _is(new, int(have)):
        return ResampledAxis(axis, old, new, op.const(1, kind))
    ratio = op.Cast(new, to=kind) / op.Cast(old, to=kind)
    return ResampledAxis(axis, old, new, ratio)


def resampled(op: Builder, x: Value, rank: int, lines: list[ResampledAxis], how: Filter) -> Value:
    """Resamples the axes of `x` one after the other."""
    lines = [line for line in lines if not line.idle]
    if how.mode == "nearest":
        for axis in lines:
            x = _nearest(op, x, rank, axis, how)
        return x
    kind = x.elem_type
    if kind not in FLOATS:
        raise Refusal(
            Why.AMBIGUOUS,
            "no specification defines the rounding of integers that Resize interpolates",
        )
    if not lines or kind in (T.FLOAT, T.DOUBLE):
        for axis in lines:
            x = _blended(op, x, rank, axis, how)
        return x
    return op.Cast(resampled(op, op.Cast(x, to=T.FLOAT), rank, lines, how), to=kind)


def by_scales(op: Builder, x: Value, scales: Value, how: Filter) -> Value:
    """Resamples `x` by the scales of its axes."""
    rank, kind = rank_of(x, scales), place_type(x, how.mode)
    changing = [axis for axis in range(rank) if not scale_is_one(scales, axis)]
    lines = [scaled_line(op, x, axis, scales, kind) for axis in changing]
    return resampled(op, x, rank, lines, how)


def rank_of(x: Value, *per_axis: Value | None) -> int:
    """Returns the rank of `x`, or the length of a list that has one entry for each axis."""
    if x.rank_or_none is None:
        for value in per_axis:
            shape = value and value.shape_or_none
            if shape:
                return shape[0]
    return x.rank


def _nearest(op: Builder, x: Value, rank: int, axis: ResampledAxis, how: Filter) -> Value:
    place = _places(op, axis, how.places, T.FLOAT)
    chosen = _picked(op, x, _rounded(op, place, axis, how.rounding), axis, T.FLOAT)
    return _extrapolated(op, chosen, rank, place, axis, how)


def _blended(op: Builder, x: Value, rank: int, axis: ResampledAxis, how: Filter) -> Value:
    """Returns the weighted sum of the elements around each position."""
    if how.smooth and not _is(axis.scale < 1, 0):
        return _smoothed(op, x, rank, axis, how)
    kind = place_type(x, how.mode)
    place = _places(op, axis, how.places, kind)
    base = op.Floor(place)
    off = place - base
    weights = tap_weights(off, how.mode, how.cubic)
    if axis.scale.const_or_none() is None and not how.exclude_outside:
        taps, weights = _around_elements(op, off, base, weights, how)
    else:
        first = 1 - len(weights) // 2
        taps = [base + (first + i) for i in range(len(weights))]
    if how.exclude_outside:
        weights = _inside_only(op, taps, weights, axis, kind)
    parts = [
        op.Mul(_picked(op, x, tap, axis, kind), column(op, weight, rank, axis.axis), since=7)
        for tap, weight in zip(taps, weights, strict=True)
    ]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return _extrapolated(op, total, rank, place, axis, how)


def _around_elements(
    op: Builder, off: Value, base: Value, weights: list[Value], how: Filter
) -> tuple[list[Value], list[Value]]:
    """Returns taps and weights, so that a position exactly on an element reads only this element.

    An infinite neighbour with weight 0 would make the sum NaN. Therefore all taps of a position on
    an element read this element, and they have equal weights.
    """
    step = op.Ceil(off)  # 0 if the position is on an element, else 1
    still = 1 - step
    taps = [base - step, base, base + step, base + step * 2]
    share = 1 / len(weights)
    more = still * share
    if len(weights) == 2:
        return taps[1:3], [weights[0] - more, weights[1] + more]
    on_an_element = tap_weights(op.const(0, like=off), how.mode, how.cubic)
    if [one.const().item() for one in on_an_element] != [0, 1, 0, 0]:  # the weights were rounded
        return taps, [weight * step + more for weight in weights]
    nearest = weights[1] - still * (1 - share)
    return taps, [weights[0] + more, nearest, weights[2] + more, weights[3] + more]


def _smoothed(op: Builder, x: Value, rank: int, axis: ResampledAxis, how: Filter) -> Value:
    """Writes sums weighted by the antialias filter, which is wider the more the axis shrinks."""
    old, new, scale = (v.const_or_none() for v in (axis.old, axis.new, axis.scale))
    if old is None or new is None or scale is None:
        return _smoothed_later(op, x, rank, axis, how)
    place = _places(op, axis, how.places, T.DOUBLE)
    at = place.const()
    reach = int(np.ceil((2 if how.mode == "cubic" else 1) / scale))
    taps = np.floor(at)[:, None] + np.arange(-reach, reach + 2)
    weights = _filter_height(how, np.abs(taps - at[:, None]) * scale)
    weights /= weights.sum(axis=1, keepdims=True)
    if how.exclude_outside:
        weights[(taps < 0) | (taps > old - 1)] = 0
        weights /= weights.sum(axis=1, keepdims=True)
    matrix = np.zeros((int(old), len(at)))
    inside = np.clip(taps, 0, old - 1).astype(np.int64)
    np.add.at(matrix, (inside, np.arange(len(at))[:, None]), weights)
    read, shares = _read_only(matrix)
    behind = [1] * (rank - axis.axis - 1)
    elements = op.Gather(x, op.const(read), axis=axis.axis)
    parts = elements * op.const(shares.reshape(*shares.shape, *behind), like=x)
    y = op.ReduceSum(parts, op.const([axis.axis + 1]), keepdims=0)
    return _extrapolated(op, y, rank, place, axis, how)


def _smoothed_later(op: Builder, x: Value, rank: int, axis: ResampledAxis, how: Filter) -> Value:
    """Writes the antialias filter with weights that are computed when the model runs.

    An element outside of the filter may be infinite, so it is not read. The nearest element is read
    instead, and all taps that read it share its weight.
    """
    axis = replace(axis, scale=as_type(op, axis.scale, T.DOUBLE))
    place, last = _places(op, axis, how.places, T.DOUBLE), _last(op, axis, T.DOUBLE)
    narrow = op.Min(axis.scale, op.const(1, T.DOUBLE))
    reach = op.Ceil((2 if how.mode == "cubic" else 1) / narrow)
    steps = op.Cast(arange(op, op.Cast(reach * 2 + 2, to=T.INT64)), to=T.DOUBLE) - reach
    taps = op.Unsqueeze(op.Floor(place), op.const([1])) + steps
    weights = _height(op, how, op.Abs(taps - op.Unsqueeze(place, op.const([1]))) * narrow)
    if how.exclude_outside:
        weights = op.Where(_outside(taps, last), op.const(0, T.DOUBLE), weights)
    weights = weights / op.ReduceSum(weights, op.const([1]))
    nearest = _inside(op, op.Unsqueeze(op.Floor(place + 0.5), op.const([1])), last)
    read = op.Where(op.Cast(weights, to=T.BOOL), _inside(op, taps, last), nearest)
    same = op.Equal(read, nearest)
    counted = op.Cast(same, to=T.DOUBLE)
    share = op.ReduceSum(counted * weights, op.const([1])) / op.ReduceSum(counted, op.const([1]))
    shares = as_type(op, op.Where(same, share, weights), x.elem_type)
    behind = list(range(2, rank - axis.axis + 1))
    elements = op.Gather(x, op.Cast(read, to=T.INT64), axis=axis.axis)
    parts = elements * (op.Unsqueeze(shares, op.const(behind)) if behind else shares)
    y = op.ReduceSum(parts, op.const([axis.axis + 1]), keepdims=0)
    return _extrapolated(op, y, rank, place, axis, how)


def _height(op: Builder, how: Filter, t: Value) -> Value:
    """Computes the weight of an element at a distance; see `_filter_height`."""
    none = op.const(0, T.DOUBLE)
    if how.mode == "linear":
        return op.Max(1 - t, none)
    outer = op.Where(t < 2, _outer(t, how.cubic), none)
    return op.Where(t > 1, outer, _inner(t, how.cubic))


def _read_only(matrix: Array) -> tuple[Array, Array]:
    """For each column, returns the rows with a nonzero weight, and their weights.

    A shorter column repeats its last row and divides the weight among the copies, because a row
    with weight 0 may be infinite, and infinity * 0 is NaN.
    """
    columns = [np.flatnonzero(column) for column in matrix.T]
    width = max((len(rows) for rows in columns), default=1)
    read = np.zeros((len(columns), width), dtype=np.int64)
    shares = np.zeros(read.shape)
    for number, rows in enumerate(columns):
        last = len(rows) - 1
        read[number] = [*rows, *[rows[last]] * (width - last - 1)]
        weights = list(matrix[rows, number])
        while len(weights) < width:
            weights[-1] /= 2
            weights.append(weights[-1])
        shares[number] = weights
    return read, shares


def _filter_height(how: Filter, t: Array) -> Array:
    """Returns the weight of an element at a distance from the position."""
    if how.mode == "linear":
        return np.asarray(np.clip(1 - t, 0, None))
    a = how.cubic
    inner, outer = ((a + 2) * t - (a + 3)) * t * t + 1, ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
    return np.where(t <= 1, inner, np.where(t < 2, outer, 0.0))


def _picked(op: Builder, x: Value, at: Value, axis: ResampledAxis, kind: int) -> Value:
    """Gathers the elements at integer positions; a position outside reads the edge of the axis."""
    last = _last(op, axis, kind)
    return op.Gather(x, op.Cast(_inside(op, at, last), to=T.INT64), axis=axis.axis)


def _inside(op: Builder, at: Value, last: Value) -> Value:
    return op.Min(op.Max(at, op.const(0, like=last)), last)


def _last(op: Builder, axis: ResampledAxis, kind: int) -> Value:
    return op.Cast(axis.old, to=kind) - 1


def _rounded(op: Builder, place: Value, axis: ResampledAxis, rounding: str) -> Value:
    if rounding in ("floor", "ceil"):
        return op.Floor(place) if rounding == "floor" else op.Ceil(place)
    if rounding == "round_prefer_floor":
        return op.Ceil(place - 0.5)
    above = op.Ceil(place)
    if rounding == "by scale":  # opset 10: Floor if the axis grows, Ceil if it shrinks
        return op.Where(axis.scale > 1, op.Floor(place), above)
    back = above - place > 0.5
    return above - op.Cast(back, to=T.FLOAT)


def tap_weights(off: Value, mode: str, a: float) -> list[Value]:
    """Returns the weights of the elements around a position; `off` is its fractional part."""
    rest = 1 - off
    if mode == "linear":
        return [rest, off]
    return [_outer(off + 1, a), _inner(off, a), _inner(rest, a), _outer(rest + 1, a)]


def _outer(t: Value, a: float) -> Value:
    """Returns the cubic weight of an element at a distance between 1 and 2."""
    return ((t * a + -5 * a) * t + 8 * a) * t + -4 * a


def _inner(t: Value, a: float) -> Value:
    """Returns the cubic weight of an element at a distance of at most 1."""
    return (t * (a + 2) - (a + 3)) * t * t + 1


def _inside_only(
    op: Builder, taps: list[Value], weights: list[Value], axis: ResampledAxis, kind: int
) -> list[Value]:
    """Sets weights of taps outside of the axis to 0; scales the other weights to the sum 1."""
    last = _last(op, axis, kind)
    inside = [
        weight * op.Cast(~_outside(tap, last), to=kind)
        for tap, weight in zip(taps, weights, strict=True)
    ]
    total = inside[0]
    for weight in inside[1:]:
        total = total + weight
    return [weight / total for weight in inside]


def _outside(place: Value, last: Value) -> Value:
    return (place < 0) | (place > last)


def _extrapolated(
    op: Builder, y: Value, rank: int, place: Value, axis: ResampledAxis, how: Filter
) -> Value:
    if how.places != "tf_crop_and_resize":
        return y
    kind = T.DOUBLE if place.elem_type == T.DOUBLE else T.FLOAT
    outside = _outside(place, _last(op, axis, kind))
    constant = outside.const_or_none()
    if constant is not None and not constant.any():
        return y
    return op.Where(column(op, outside, rank, axis.axis), op.const(how.extrapolation, like=y), y)


def _places(op: Builder, axis: ResampledAxis, name: str, kind: int) -> Value:
    """Returns a vector: the position in the input from which each result element is sampled."""
    at = op.Cast(arange(op, axis.new), to=kind)
    if name == "asymmetric":
        return at / axis.scale
    if name == "align_corners":
        steps = op.Max(op.Cast(axis.new, to=kind) - 1, op.const(1, kind))
        return at * _last(op, axis, kind) / steps
    if name == "tf_crop_and_resize":
        return _cropped_places(op, axis, at, kind)
    shifted = (at + 0.5) / axis.scale
    if name == "tf_half_pixel_for_nn":
        return _unless_kept(op, axis, shifted, at)
    if name == "half_pixel_symmetric":
        old, new = op.Cast(axis.old, to=kind), op.Cast(axis.new, to=kind)
        adjustment = new / (axis.scale * old)
        return old * 0.5 * (1 - adjustment) + shifted - 0.5
    centred = shifted - 0.5
    if name == "pytorch_half_pixel":
        several = op.Cast(axis.new, to=kind) > 1
        return op.Where(several, centred, op.const(0, kind))
    return centred


def _unless_kept(op: Builder, axis: ResampledAxis, places: Value, at: Value) -> Value:
    """Returns `places`, or the unscaled positions `at` if the scale of the axis is 1."""
    changed = (axis.scale < 1) | (axis.scale > 1)
    return op.Where(changed, places, at)


def _cropped_places(op: Builder, axis: ResampledAxis, at: Value, kind: int) -> Value:
    assert axis.start is not None
    assert axis.end is not None
    last = _last(op, axis, kind)
    new_last = op.Cast(axis.new, to=kind) - 1
    several = axis.start * last + at * (axis.end - axis.start) * last / new_last
    single = 0.5 * (axis.start + axis.end) * last
    return op.Where(new_last > 0, several, single)
