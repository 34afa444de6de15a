# SPDX-License-Identifier: Apache-2.0
"""Reduction of all rows that are scattered to the same index, without a Loop over the rows."""

import math
from dataclasses import dataclass

from opshift.adapter import Array, Builder, InvalidModel, Node, T, Value, np

from opshift_adapters._lib.blocks import LONGEST, arange, one_slice, part, size_of
from opshift_adapters._lib.kinds import INTS, WIDE_FLOATS, as_type

COMBINERS = {"add": "Add", "mul": "Mul", "max": "Max", "min": "Min"}
REDUCERS = {"add": "ReduceSum", "mul": "ReduceProd", "max": "ReduceMax", "min": "ReduceMin"}
MOST_PAIRS = 2**14  # pairs of an index and a number, up to which all pairs are compared at once
MOST_WIDE_PAIRS = 2**10  # the same limit if rows have several numbers or the indices are constant
MOST_IN_MATRIX = 2**13  # pairs of an index and a row, up to which MatMul is faster than lists
MOST_LISTED = 2**7  # indices for which a one-hot matrix is written to list their rows
MOST_IN_LISTS = 2**22  # numbers that are reduced if all rows have the same index
MOST_IN_KNOWN_LISTS = 4  # list entries for each row and index, if the indices are constant
MOST_STEPS = 64  # each step doubles the reach, and no tensor has 2^64 rows


def neutral(name: str, kind: int) -> float:
    """Returns the number that a reduction ignores, such as 0 for add and 1 for mul."""
    if name in ("add", "mul"):
        return int(name == "mul")
    lowest, highest = T(kind).element.limits if kind in INTS else (-math.inf, math.inf)
    return lowest if name == "max" else highest


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows to scatter (`news`) and the index of each row in the data (int64, not negative)."""

    places: Value
    news: Value
    count: Value  # of indices, an int64 scalar
    most: int | None  # rows that have the same index, at most
    name: str  # of the reduction: add, mul, max or min


def unfit_updates(node: Node) -> str | None:
    """Returns why the shape of `updates` does not fit `indices` and `data`, or None if it fits."""
    data, indices = node["data"].rank_or_none, node["indices"].rank_or_none
    updates = node["updates"].rank_or_none
    named = (node["indices"].dims_or_none or (None,))[-1]
    if indices and updates is not None and updates < indices - 1:
        return f"the updates have {updates} axes, but the indices have {indices}"
    if not isinstance(named, int) or data is None or not indices or updates is None:
        return None
    rank_of_updates = indices - 1 + data - named
    if updates != rank_of_updates:
        return f"the updates have {updates} axes, but must have {rank_of_updates}"
    dims, sizes = node["updates"].dims, (*node["indices"].dims[:-1], *node["data"].dims[named:])
    for dim, size in zip(dims, sizes, strict=True):
        if isinstance(dim, int) and isinstance(size, int) and dim != size:
            return f"the updates have an axis of size {dim}, but it must have size {size}"
    return None


def combined(op: Builder, name: str, old: Value, new: Value) -> Value:
    """Combines two tensors by a reduction, element by element."""
    return op.emit(COMBINERS[name], old, new)


def reduced_rows(op: Builder, rows: Rows) -> Value:
    """Reduces the rows of each index to one row; an index without rows gets neutral numbers."""
    known, news = rows.count.const_or_none(), rows.news.shape_or_none
    count = 0 if known is None else int(known.item())
    _require_places(rows.places.const_or_none(), known)
    if not count or news is None or 0 in news or rows.news.elem_type not in WIDE_FLOATS:
        return _by_doubling(op, rows)
    shape, pairs = [count, *news[1:]], count * news[0]
    if pairs * math.prod(news[1:]) <= most_pairs(rows.places, len(news)):
        return _at_once(op, rows, count, len(news))
    is_matrix = rows.name == "add" and len(news) == 2 and rows.places.const_or_none() is None
    if is_matrix and pairs <= MOST_IN_MATRIX:
        return _by_matrix(op, rows, count)
    lists = _lists(op, rows.places, shape, news[0])
    return _by_doubling(op, rows) if lists is None else _by_lists(op, rows, lists, shape)


def _require_places(places: Array | None, count: Array | None) -> None:
    """Refuses constant indices that are outside of the data."""
    if places is None or count is None:
        return
    if not ((places >= 0) & (places < count)).all():
        raise InvalidModel(f"a constant index is outside of the {count} elements of the data")


def most_pairs(places: Value, rank: int) -> int:
    """Returns the number of (index, row) pairs up to which a comparison of all pairs is fastest."""
    simple = rank == 1 and places.const_or_none() is None
    return MOST_PAIRS if simple else MOST_WIDE_PAIRS


def _named(op: Builder, rows: Rows, count: int) -> Value:
    """Returns a bool matrix that is true if a row (axis 1) is scattered to an index (axis 0)."""
    return op.Equal(op.const(np.arange(count).reshape(-1, 1)), rows.places)


def _at_once(op: Builder, rows: Rows, count: int, rank: int) -> Value:
    """Reduces all rows once per index, with neutral numbers in place of rows of other indices."""
    chosen = _named(op, rows, count)
    if rank > 1:
        chosen = op.Unsqueeze(chosen, op.const(list(range(2, rank + 1))))
    constant = op.const(neutral(rows.name, rows.news.elem_type), like=rows.news)
    listed = op.Where(chosen, rows.news, constant)
    if rows.name == "add":
        return op.ReduceSum(listed, op.const([1]), keepdims=0)
    return op.emit(REDUCERS[rows.name], listed, axes=[1], keepdims=0)


def _by_matrix(op: Builder, rows: Rows, count: int) -> Value:
    """Adds the rows of each index by MatMul with a matrix of zeros and ones.

    In MatMul, 0 * infinity is NaN, so 0 replaces infinities and NaN, which are added afterwards.
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


@dataclass(frozen=True, slots=True)
class _Lists:
    """A list of rows for each index, stored as all first rows, then all second rows, and so on."""

    rows: Value  # as a vector; a row of neutral numbers fills up short lists
    ones: Value  # a 1.0 for each row of the longest list


def _by_lists(op: Builder, rows: Rows, lists: _Lists, shape: list[int]) -> Value:
    """Reduces the list of rows of each index.

    The rows are picked by GatherElements and added by MatMul, because Gather of single numbers and
    ReduceSum of few long rows are slow.
    """
    last = one_slice(op, rows.news, neutral(rows.name, rows.news.elem_type), 0)
    news, vector = op.Concat(rows.news, last, axis=0), len(shape) == 1
    pick = op.GatherElements if vector else op.Gather
    reshaped = op.Reshape(pick(news, lists.rows, axis=0), op.const([-1, math.prod(shape)]))
    if rows.name == "add":
        total = op.MatMul(as_type(op, lists.ones, news.elem_type), reshaped)
    else:
        total = op.emit(REDUCERS[rows.name], reshaped, axes=[0], keepdims=0)
    return total if vector else op.Reshape(total, op.const(shape))


def _lists(op: Builder, places: Value, shape: list[int], length: int) -> _Lists | None:
    """Returns the list of rows of each index, or None if the lists may become too long."""
    indices, count = places.const_or_none(), shape[0]
    if indices is not None:
        lists = _known_lists(indices, count)
        if lists.size > MOST_IN_KNOWN_LISTS * (count + length):
            return None
        return _Lists(op.const(lists.ravel()), op.const(np.ones(len(lists)), T.FLOAT))
    if count > MOST_LISTED or math.prod(shape) * length > MOST_IN_LISTS:
        return None
    return _computed_lists(op, places, count, length)


def _known_lists(places: Array, count: int) -> Array:
    each, length = np.bincount(places, minlength=count), len(places)
    ends = np.cumsum(each)
    at = ends - each + np.arange(each.max()).reshape(-1, 1)
    order = np.append(np.argsort(places, kind="stable"), length)
    return np.where(at < ends, order[np.minimum(at, length)], length)


def _computed_lists(op: Builder, places: Value, count: int, length: int) -> _Lists:
    """Writes nodes that compute the lists: a row is placed after the earlier rows of its index."""
    each = op.Gather(op.const(np.eye(count), T.FLOAT), places, axis=0)
    sums = op.CumSum(each, op.const(0), exclusive=1)
    before = op.GatherElements(sums, op.Unsqueeze(places, op.const([1])), axis=1)
    before = op.Reshape(op.Cast(before, to=T.INT64), op.const([-1]))
    most = op.ReduceMax(before, axes=[0], keepdims=1) + 1
    empty = op.Expand(op.const([length]), most * count)
    at = before * count + places
    rows = op.ScatterElements(empty, at, op.const(np.arange(length)), axis=0)
    ones = op.const(np.ones(length), T.FLOAT)
    return _Lists(rows, op.Slice(ones, op.const([0]), most, op.const([0])))


BEHIND_ALL = 2**63 - 1  # an index that no tensor has


@dataclass(frozen=True, slots=True)
class _Order:
    """The rows sorted by index, followed by one more row that has no index."""

    rows: Value  # the row at each position
    pointers: Value  # from a position to the previous position of its index, or to the last row
    lasts: Value  # the last position of each index, or the position of the last row
    steps: int | None  # after which all rows of an index are combined; None if unknown


def _by_doubling(op: Builder, rows: Rows) -> Value:
    """Combines each row with the earlier rows of its index; each step doubles the number of rows.

    An appended row has neutral numbers. In each step, a row is combined with the row at its pointer
    and gets the pointer of that row.
    """
    places, count = rows.places.const_or_none(), rows.count.const_or_none()
    if places is not None and count is not None:
        order = _known_order(op, places, int(count.item()))
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
    # Positions that are not the last of their index are written after all indices.
    goal = op.Where(continued, at + rows.count, front)
    lasts = op.ScatterElements(_filled(op, last, rows.count + last), goal, at, axis=0)
    lasts = op.Slice(lasts, op.const([0]), op.Reshape(rows.count, op.const([1])), op.const([0]))
    return _Order(order, pointers, lasts, None if rows.most is None else _steps(rows.most))


def _steps(most: int) -> int:
    """Returns how many doubling steps combine up to `most` rows of one index."""
    return max(most - 1, 0).bit_length()


def _doubled(op: Builder, name: str, runs: Value, order: _Order) -> Value:
    """Writes the nodes of each doubling step, or a Loop of steps if their number is unknown."""
    pointers = order.pointers
    if order.steps is None:
        return _doubled_in_loop(op, name, runs, pointers)
    for step in reversed(range(order.steps)):
        runs = combined(op, name, runs, op.Gather(runs, pointers, axis=0))
        if step:
            pointers = op.Gather(pointers, pointers, axis=0)
    return runs


def _doubled_in_loop(op: Builder, name: str, runs: Value, pointers: Value) -> Value:
    """Writes the doubling steps as a Loop that ends when each pointer is at the last row."""
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
    """Returns a vector in which each element is the same number."""
    constant, length = number.const_or_none(), size.const_or_none()
    if constant is not None and length is not None and length.item() <= LONGEST:
        return op.const(np.full(int(length.item()), constant.item()))
    return op.Expand(number, op.Reshape(size, op.const([1])))
