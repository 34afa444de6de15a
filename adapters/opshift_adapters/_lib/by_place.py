# SPDX-License-Identifier: Apache-2.0
"""The reduction of all rows that name the same place, without a Loop over the rows."""

import math
from dataclasses import dataclass

from opshift.adapter import Array, Builder, Node, T, Value, np

from opshift_adapters._lib.blocks import INTS, LONGEST, arange, one_slice, part, size_of

COMBINERS = {"add": "Add", "mul": "Mul", "max": "Max", "min": "Min"}
REDUCERS = {"add": "ReduceSum", "mul": "ReduceProd", "max": "ReduceMax", "min": "ReduceMin"}
WIDE_FLOATS = (T.FLOAT, T.DOUBLE)
MOST_PAIRS = 2**14  # numbers of a row for each place, up to which all are compared at once
MOST_IN_MATRIX = 2**15  # pairs of a place and a row, up to which MatMul takes less than the sort
MOST_STEPS = 64  # each step reaches twice as far as the one before, and no tensor has 2^64 rows


def neutral(name: str, kind: int) -> float:
    """The number that a reduction does not change."""
    if name in ("add", "mul"):
        return int(name == "mul")
    lowest, highest = T(kind).element.limits if kind in INTS else (-math.inf, math.inf)
    return lowest if name == "max" else highest


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows (`news`) and the place (int64, counted from the front) that each of them names."""

    places: Value
    news: Value
    count: Value  # of places, an int64 scalar
    most: int | None  # rows of one place
    name: str  # of the reduction


def unfit_updates(node: Node) -> str | None:
    """The mistake, unless updates have the axes that indices lead with and that no row names."""
    data, indices = node["data"].rank_or_none, node["indices"].rank_or_none
    updates = node["updates"].rank_or_none
    named = (node["indices"].dims_or_none or (None,))[-1]
    if indices and updates is not None and updates < indices - 1:
        return f"its updates have {updates} axes, and its indices {indices}"
    if not isinstance(named, int) or data is None or not indices or updates is None:
        return None
    wanted = indices - 1 + data - named
    if updates != wanted:
        return f"its updates have {updates} axes, and {wanted} are needed"
    found, sizes = node["updates"].dims, (*node["indices"].dims[:-1], *node["data"].dims[named:])
    for one, size in zip(found, sizes, strict=True):
        if isinstance(one, int) and isinstance(size, int) and one != size:
            return f"its updates have {one} places where {size} are needed"
    return None


def combined(op: Builder, name: str, old: Value, new: Value) -> Value:
    """Two tensors combined by a reduction, element by element."""
    value: Value = op.emit(COMBINERS[name], old, new)
    return value


def reduced_rows(op: Builder, rows: Rows) -> Value:
    """For each place the reduction of its rows, or the neutral number if there are none."""
    count, news = rows.count.const_or_none(), rows.news.shape_or_none
    if count is not None and news is not None and rows.news.elem_type in WIDE_FLOATS:
        pairs = int(count.item()) * news[0]
        if 0 < pairs * math.prod(news[1:]) <= MOST_PAIRS:
            return _at_once(op, rows, int(count.item()), len(news))
        if 0 < pairs <= MOST_IN_MATRIX and rows.name == "add" and len(news) == 2 and news[1]:
            return _by_matrix(op, rows, int(count.item()))
    return _by_doubling(op, rows)


def _named(op: Builder, rows: Rows, count: int) -> Value:
    """Whether a row (second axis) names a place (first axis)."""
    return op.Equal(op.const(np.arange(count).reshape(-1, 1)), rows.places)


def _at_once(op: Builder, rows: Rows, count: int, rank: int) -> Value:
    """Each place reduces its rows, and the neutral number for each other row."""
    chosen = _named(op, rows, count)
    if rank > 1:
        chosen = op.Unsqueeze(chosen, op.const(list(range(2, rank + 1))))
    one = op.const(neutral(rows.name, rows.news.elem_type), like=rows.news)
    listed = op.Where(chosen, rows.news, one)
    if rows.name == "add":
        return op.ReduceSum(listed, op.const([1]), keepdims=0)
    reduced: Value = op.emit(REDUCERS[rows.name], listed, axes=[1], keepdims=0)
    return reduced


def _by_matrix(op: Builder, rows: Rows, count: int) -> Value:
    """Sums by a product with a matrix of 0 and 1, from which infinities and NaN are kept out.

    A product of 0 and infinity is NaN, so these are counted and added after the product.
    """
    kind, news = rows.news.elem_type, rows.news
    matrix = op.Cast(_named(op, rows, count), to=kind)
    zero = op.const(0, kind)
    bounded = [news < math.inf, news > -math.inf]
    total = op.MatMul(matrix, op.Where(bounded[0] & bounded[1], news, zero))
    for inside, infinity in zip(bounded, (math.inf, -math.inf), strict=True):
        outside = op.MatMul(matrix, op.Cast(~inside, to=kind))
        total = total + op.Where(outside > zero, op.const(infinity, kind), zero)
    return total


# -- by doubling ---------------------------------------------------------------------------------


BEHIND_ALL = 2**63 - 1  # a place of no tensor


@dataclass(frozen=True, slots=True)
class _Order:
    """The rows in the order of their places, and behind them a last row without a place."""

    rows: Value  # the row at each position
    pointers: Value  # from a position to the one before it of the same place, or to the last row
    lasts: Value  # the last position of each place, or that of the last row
    steps: int | None  # after which all rows of a place are combined


def _by_doubling(op: Builder, rows: Rows) -> Value:
    """Each row is combined with ever longer runs of the rows before it that have its place.

    The last row has neutral numbers. A step combines each row with the row at its pointer, and
    follows the pointers twice.
    """
    known, count = rows.places.const_or_none(), rows.count.const_or_none()
    if known is not None and count is not None:
        order = _known_order(op, known, int(count.item()))
    else:
        order = _computed_order(op, rows)
    last = one_slice(op, rows.news, neutral(rows.name, rows.news.elem_type), 0)
    news = op.Concat(rows.news, last, axis=0)
    runs = _doubled(op, rows.name, op.Gather(news, order.rows, axis=0), order)
    return op.Gather(runs, order.lasts, axis=0)


def _known_order(op: Builder, places: Array, count: int) -> _Order:
    length = len(places)
    order = np.argsort(places, kind="stable")
    ordered, at = places[order], np.arange(length)
    pointers = np.where(np.diff(ordered, prepend=-1) == 0, at - 1, length)
    lasts = np.full(count, length)
    lasts[ordered] = at
    most = int(np.unique(places, return_counts=True)[1].max(initial=0))
    rows, previous = (op.const(np.append(listed, length)) for listed in (order, pointers))
    return _Order(rows, previous, op.const(lasts), _steps(most))


def _computed_order(op: Builder, rows: Rows) -> _Order:
    places = op.Concat(rows.places, op.const([BEHIND_ALL]), axis=0)
    length = size_of(op, places, 0)
    size, last = op.Reshape(length, op.const([1])), length - 1
    ordered, order = op.TopK(places, size, axis=0, largest=0, outputs=2)
    front, at = part(op, ordered, 0, -1), arange(op, last)
    continued = op.Equal(front, part(op, ordered, 1))
    pointers = op.Where(continued, at, last)
    pointers = op.Concat(op.Reshape(last, op.const([1])), pointers, axis=0)
    # A position that is not the last of its place is written behind all places.
    goal = op.Where(continued, at + rows.count, front)
    lasts = op.ScatterElements(_filled(op, last, rows.count + last), goal, at, axis=0)
    lasts = op.Slice(lasts, op.const([0]), op.Reshape(rows.count, op.const([1])), op.const([0]))
    return _Order(order, pointers, lasts, None if rows.most is None else _steps(rows.most))


def _steps(most: int) -> int:
    """The steps after which a run is as long as the most rows of a place."""
    return max(most - 1, 0).bit_length()


def _doubled(op: Builder, name: str, runs: Value, order: _Order) -> Value:
    """The steps one after the other, or in a Loop if their number is unknown."""
    pointers = order.pointers
    if order.steps is None:
        return _doubled_in_loop(op, name, runs, pointers)
    for left in reversed(range(order.steps)):
        runs = combined(op, name, runs, op.Gather(runs, pointers, axis=0))
        if left:
            pointers = op.Gather(pointers, pointers, axis=0)
    return runs


def _doubled_in_loop(op: Builder, name: str, runs: Value, pointers: Value) -> Value:
    """The steps up to the first after which each pointer names the last row."""
    last = size_of(op, pointers, 0) - 1

    def step(b: Builder, i: Value, go: Value, runs: Value, pointers: Value) -> tuple[Value, ...]:
        further = b.Gather(pointers, pointers, axis=0)
        nearest = b.ReduceMin(further, axes=[0], keepdims=0)
        new = combined(b, name, runs, b.Gather(runs, pointers, axis=0))
        return b.Less(nearest, last), new, further

    body = op.graph(step, (T.INT64, ()), (T.BOOL, ()), runs, pointers)
    going = op.const(True, T.BOOL)
    return op.Loop(op.const(MOST_STEPS), going, runs, pointers, body=body, outputs=2)[0]


def _filled(op: Builder, number: Value, size: Value) -> Value:
    """A vector of one number."""
    known, length = number.const_or_none(), size.const_or_none()
    if known is not None and length is not None and length.item() <= LONGEST:
        return op.const(np.full(int(length.item()), known.item()))
    return op.Expand(number, op.Reshape(size, op.const([1])))
