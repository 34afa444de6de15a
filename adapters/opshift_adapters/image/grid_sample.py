"""GridSample: named as Resize names its modes from 20 on, for pictures alone before, born in 16."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from opshift.adapter import (
    Builder,
    Node,
    Refusal,
    Result,
    T,
    Value,
    Why,
    adapter,
    boundary,
    example,
)
from opshift.combinators import cast_around

from opshift_adapters._lib.blocks import FLOATS, size_of
from opshift_adapters._lib.calc import calc, calc_cast
from opshift_adapters._lib.sampling import tap_weights

GRID_SAMPLE_22 = boundary(22, "GridSample:d255c0", cast=cast_around("float"))
NEW_NAMES = {"bilinear": "linear", "bicubic": "cubic"}
OLD_NAMES = {new: old for old, new in NEW_NAMES.items()}
PICTURE = "(float[2,3,4,5] x, float[2,6,7,2] g) => (float[2,3,6,7] y) "
OPEN = "(float[N,C,H,W] x, float[N,P,Q,2] g) => (float[N,C,P,Q] y) "


@adapter("GridSample", 19, 20)
@example("default", PICTURE + "{ y = GridSample(x, g) }", gives="GridSample")
@example("bilinear", PICTURE + '{ y = GridSample<mode="bilinear",align_corners=1>(x, g) }', gives="GridSample")
@example("bicubic", PICTURE + '{ y = GridSample<mode="bicubic",padding_mode="border">(x, g) }', gives="GridSample")
@example("nearest", PICTURE + '{ y = GridSample<mode="nearest"> (x, g) }', gives="GridSample")
def grid_sample_19_20(node: Node, op: Builder) -> Result:
    """bilinear and bicubic are called linear and cubic."""
    mode = node.str("mode") if node.has("mode") else None
    return op.same(node, mode=NEW_NAMES.get(mode, mode) if mode else None)


SAMPLE = (
    "Transpose", "Shape", "Gather", "Cast", "Add", "Sub", "Mul", "Div", "Floor", "Round", "Max",
    "Min", "Less", "Greater", "Or", "Not", "Equal", "Where", "Unsqueeze", "Concat", "GatherND",
)  # fmt: skip
LINE = "(float[2,3,5] x, float[2,7,1] g) => (float[2,3,7] y) "
SOLID = "(float[1,2,3,4,5] x, float[1,2,3,2,3] g) => (float[1,2,2,3,2] y) "


@adapter("GridSample", 20, 19, emits=("Pad", "Squeeze", *SAMPLE))
@example("default", OPEN + "{ y = GridSample(x, g) }", gives="GridSample", inputs={"x": [[[[1, 2], [3, 4]]]], "g": [[[[0.1, -0.4]]]]})
@example("cubic", PICTURE + '{ y = GridSample<mode="cubic",padding_mode="reflection">(x, g) }', gives="GridSample")
@example("nearest", PICTURE + '{ y = GridSample<mode="nearest">(x, g) }', gives="GridSample")
@example("a line", LINE + "{ y = GridSample(x, g) }", gives="Pad Unsqueeze Unsqueeze GridSample Squeeze", atol=1e-6)
@example("a line, cubic", LINE + '{ y = GridSample<mode="cubic",align_corners=1>(x, g) }', gives="Pad Unsqueeze Unsqueeze GridSample Squeeze", atol=1e-5)
@example("solid", SOLID + "{ y = GridSample(x, g) }", atol=1e-6)
@example("solid, corners", SOLID + '{ y = GridSample<align_corners=1,padding_mode="border">(x, g) }', atol=1e-6)
@example("solid, nearest", SOLID + '{ y = GridSample<mode="nearest",padding_mode="reflection">(x, g) }', atol=1e-6)
@example("solid bytes", SOLID.replace("float[1,2,", "uint8[1,2,").replace("uint8[1,2,3,2,3]", "float[1,2,3,2,3]") + '{ y = GridSample<mode="nearest">(x, g) }')
@example("unknown rank", "(float[n] v, int64[k] s, float[2,6,7,2] g) => (float[a,b,c,d] y) { x = Reshape(v, s) y = GridSample(x, g) }", gives="Reshape GridSample", inputs={"v": range(120), "s": [2, 3, 4, 5]})
@example("unknown ranks", "(float[n] v, int64[k] s, int64[4] t, float[m] w) => (float[a,b,c,d] y) { x = Reshape(v, s) g = Reshape(w, t) y = GridSample(x, g) }", gives="Reshape Reshape GridSample", inputs={"v": range(120), "s": [2, 3, 4, 5], "w": [0.5] * 168, "t": [2, 6, 7, 2]})
def grid_sample_20_19(node: Node, op: Builder) -> Result:
    """There were only pictures, and linear and cubic were called bilinear and bicubic."""
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


@adapter("GridSample", 16, 15, emits=SAMPLE)
@example("default", PICTURE + "{ y = GridSample(x, g) }", atol=1e-6)
@example("unknown sizes", OPEN + '{ y = GridSample<align_corners=1,padding_mode="reflection">(x, g) }', atol=1e-6, inputs={"x": [[[[1, 2], [3, 4]]]], "g": [[[[0.1, -2.4], [0.1, 3.3]]]]})
@example("border", PICTURE + '{ y = GridSample<padding_mode="border">(x, g) }', atol=1e-6)
@example("reflection", PICTURE + '{ y = GridSample<padding_mode="reflection">(x, g) }', atol=1e-6)
@example("nearest", PICTURE + '{ y = GridSample<mode="nearest">(x, g) }')
@example("nearest words", '(string[1,1,2,2] x, double[1,3,1,2] g) => (string[1,1,3,1] y) { y = GridSample<mode="nearest",padding_mode="border">(x, g) }')
@example("nearest words, zeros", '(string[1,1,2,2] x, float[1,3,1,2] g) => (string[1,1,3,1] y) { y = GridSample<mode="nearest">(x, g) }', refuses=Why.AMBIGUOUS)
@example("bicubic", PICTURE + '{ y = GridSample<mode="bicubic">(x, g) }', atol=5e-6)
@example("bicubic, reflection", PICTURE + '{ y = GridSample<mode="bicubic",align_corners=1,padding_mode="reflection">(x, g) }', atol=5e-6)
@example("one column", '(float[1,1,3,1] x, float[1,4,2,2] g) => (float[1,1,4,2] y) { y = GridSample<align_corners=1,padding_mode="reflection">(x, g) }', atol=1e-6)
@example("double", "(double[1,1,3,4] x, float[1,4,2,2] g) => (double[1,1,4,2] y) { y = GridSample(x, g) }", atol=1e-14)
@example("half", "(float16[1,1,3,4] x, float16[1,4,2,2] g) => (float16[1,1,4,2] y) { y = GridSample(x, g) }", atol=2e-3)
@example("whole numbers", "(int32[1,1,3,4] x, float[1,4,2,2] g) => (int32[1,1,4,2] y) { y = GridSample(x, g) }", refuses=Why.AMBIGUOUS)
def grid_sample_16_15(node: Node, op: Builder) -> Result:
    """Before its birth: the weighted sum of the elements around each place."""
    mode = NEW_NAMES.get(node.str("mode"), node.str("mode"))
    return _sampled(node, op, mode, 4)


@dataclass(frozen=True, slots=True)
class Tap:
    """Which element along one axis a place looks at, what it counts for, and whether it is there."""

    index: Value
    weight: Value | None
    outside: Value | None


def _sampled(node: Node, op: Builder, mode: str, rank: int) -> Value:
    """GridSample by GatherND, with as many taps along each axis as the mode has."""
    x, grid, kind = node["X"], node["grid"], node["X"].elem_type
    if mode != "nearest" and kind not in FLOATS:
        raise Refusal(Why.AMBIGUOUS, "whole numbers between two places are rounded as nobody says")
    if node.str("padding_mode") == "zeros" and kind == T.STRING:
        raise Refusal(Why.AMBIGUOUS, "no text says which string is zero")
    work = T.DOUBLE if kind == T.DOUBLE else T.FLOAT
    widened = mode != "nearest" and kind != work
    data = op.Transpose(x, perm=[0, *range(2, rank), 1])
    data = op.Cast(data, to=work) if widened else data
    places = grid if grid.elem_type_or_none == work else op.Cast(grid, to=work)
    taps = [
        _taps(node, op, op.Gather(places, op.const(rank - 1 - axis), axis=-1), axis, mode, work)
        for axis in range(2, rank)
    ]
    parts = [_weighed(op, data, choice) for choice in itertools.product(*taps)]
    total = parts[0]
    for part in parts[1:]:
        total = op.Add(total, part)
    total = op.Cast(total, to=kind) if widened else total
    return op.Transpose(total, perm=[0, rank - 1, *range(1, rank - 1)])


def _weighed(op: Builder, data: Value, choice: Sequence[Tap]) -> Value:
    """One element for each place, times its weight; nothing where that is zero."""
    last = op.const([-1])
    index = op.Concat(*(op.Unsqueeze(tap.index, last) for tap in choice), axis=-1)
    part = op.GatherND(data, index, batch_dims=1)
    away: Value | None = None
    for tap in choice:
        if tap.outside is not None:
            away = tap.outside if away is None else op.Or(away, tap.outside)
    weight: Value | None = None
    for tap in choice:
        if tap.weight is not None:
            weight = tap.weight if weight is None else op.Mul(weight, tap.weight)
    if weight is not None:
        part = op.Mul(part, op.Unsqueeze(weight, last))
        nothing = op.Equal(weight, op.const(0, like=weight))
        away = nothing if away is None else op.Or(away, nothing)
    if away is None:
        return part
    return op.Where(op.Unsqueeze(away, last), op.const(0, like=data), part)


def _taps(node: Node, op: Builder, place: Value, axis: int, mode: str, kind: int) -> list[Tap]:
    """The elements along one axis that count for places between -1 and 1."""
    one, two = op.const(1, kind), op.const(2, kind)
    size = calc_cast(op, size_of(op, node["X"], axis), kind)
    last = calc(op, "Sub", size, one)
    if node.int("align_corners"):
        at = op.Mul(op.Div(op.Add(place, one), two), last)
    else:
        at = op.Div(op.Sub(op.Mul(op.Add(place, one), size), one), two)
    if mode == "nearest":
        return [_tap(node, op, op.Round(at), None, last, kind)]
    base = op.Floor(at)
    weights = tap_weights(op, op.Sub(at, base), mode, -0.75, kind)
    first = 1 - len(weights) // 2
    return [
        _tap(node, op, op.Add(base, op.const(first + i, kind)), weight, last, kind)
        for i, weight in enumerate(weights)
    ]


def _tap(
    node: Node, op: Builder, at: Value, weight: Value | None, last: Value, kind: int
) -> Tap:
    zero, outside = op.const(0, kind), None
    if node.str("padding_mode") == "zeros":
        outside = op.Or(op.Less(at, zero), op.Greater(at, last))
    elif node.str("padding_mode") == "reflection":
        at = _reflected(node, op, at, last, kind)
    inside = op.Cast(op.Min(op.Max(at, zero), last), to=T.INT64)
    return Tap(op.Max(inside, op.const(0)), weight, outside)  # a place that is no number is any


def _reflected(node: Node, op: Builder, at: Value, last: Value, kind: int) -> Value:
    """Mirrored at both edges, as often as it takes."""
    half, two = op.const(0.5, kind), op.const(2, kind)
    if node.int("align_corners"):
        low, span = op.const(0, kind), calc(op, "Max", last, half)  # one element: any span will do
    else:
        low, span = op.const(-0.5, kind), calc(op, "Add", last, op.const(1, kind))
    there_and_back = calc(op, "Mul", span, two)
    way = op.Sub(at, low)
    way = op.Sub(way, op.Mul(op.Floor(op.Div(way, there_and_back)), there_and_back))
    back = op.Sub(there_and_back, way)
    return op.Add(low, op.Min(way, back))
