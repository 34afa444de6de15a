# SPDX-License-Identifier: Apache-2.0
"""ArgMax, ArgMin and TopK: the indices of the largest and the smallest elements."""

from opshift.adapter import (
    KEEP,
    Builder,
    Node,
    Result,
    T,
    Value,
    adapter,
    alternative,
    boundary,
    form,
    in_other_words,
    misread,
    np,
)
from opshift.combinators import cast_around

from opshift_adapters._lib.blocks import arange, places_along, size_of
from opshift_adapters._lib.kinds import EXACT_IN_FLOAT, FLOATS, SMALL_INTS
from opshift_adapters.select.gather import gather_elements

FIRST = -(2**63)


def from_the_front(node: Node, op: Builder) -> Result:
    """Below opset 11, `axis` is not negative; if the rank is unknown, Transpose reverses x."""
    x, axis = node["data"], node.int("axis")
    if axis >= 0:
        return KEEP
    if x.rank_or_none is not None:
        return op.same(node, axis=axis + x.rank)
    return op.Transpose(op.same(node, inputs={"data": op.Transpose(x)}, axis=-1 - axis))


# Operators after Gather that onnxruntime treats as computations of sizes.
PASS_ON = ("Add", "Cast", "Div", "Identity", "Mul", "Sub")


@misread("TopK", "onnxruntime 1.24..1.27", source="2026-11-28 1.17..1.32: 37 forms", since=10)
def counts_by_gather(node: Node) -> bool:
    """TopK does not load if Gather, perhaps before arithmetic, reads k from a known shape."""
    waiting, seen = [node["K"]], set[str]()
    kind = node["K"].elem_type
    while waiting:
        value = waiting.pop()
        producer = value.producer
        if producer is None or value.name in seen or node["K"].const_or_none() is None:
            continue
        seen.add(value.name)
        if producer.op == "Gather":
            return True
        if producer.op in PASS_ON and value.elem_type_or_none == kind:
            waiting += filter(None, producer.inputs)
    return False


@alternative("TopK", runtime="onnxruntime==1.24")
def of_a_written_count(node: Node, op: Builder) -> Result:
    """TopK gets a constant as k, because onnxruntime 1.24 to 1.27 misread k of a Gather."""
    constant = node["K"].const_or_none() if op.version >= 10 else None  # below, k is an attribute
    return KEEP if constant is None else op.same(node, inputs={"K": op.const(constant)})


ARG_11 = boundary(11, "ArgMax:e43d4a ArgMin:ee9499", down=from_the_front)
ARG_12 = boundary(12, "ArgMax:72625a ArgMin:aab8c7", directions="up")
ARG_13 = boundary(13, "ArgMax:535301 ArgMin:5cea2b")


@adapter("ArgMax ArgMin", 12, 11)
def arg_12_11(node: Node, op: Builder) -> Result:
    """Below opset 12, ArgMax and ArgMin lack `select_last_index`; a Slice reverses the axis."""
    x, axis = node["data"], node.int("axis")
    if not node.int("select_last_index"):
        return op.same(node, select_last_index=None)
    backwards = op.Slice(x, op.const([-1]), op.const([FIRST]), op.const([axis]), op.const([-1]))
    place = op.same(node, inputs={"data": backwards}, select_last_index=None)
    return size_of(op, x, axis) - op.const(1) - place


@adapter("TopK", 9, 10)
def topk_9_10(node: Node, op: Builder) -> Result:
    """Opset 10 made `k` an input of TopK; it was an attribute."""
    return op.same(node, inputs={"K": op.const([node.int("k")])}, k=None)


@adapter("TopK", 10, 9)
def topk_10_9(node: Node, op: Builder) -> Result:
    """Below opset 10, `k` is an attribute; for a computed k, Gather shortens a longer result."""
    x, k, axis = node["X"], node["K"], node.int("axis")
    known, dims = k.const_or_none(), x.dims_or_none
    if known is not None and known.item() == 0:
        none = op.Slice(x, starts=[0], ends=[0], axes=[axis if axis >= 0 else x.rank - 1])
        return none, op.Cast(none, to=T.INT64)
    if known is not None:
        return op.same(node, inputs={"K": None}, k=known.item(), outputs=2)
    size, bounds = dims[axis] if dims else None, k.bounds_or_none
    if not isinstance(size, int):
        if bounds is None or bounds.highest > MOST_SORTED:
            return _one_by_one(op, x, k, axis % x.rank)
        size, x = bounds.highest, _longer(op, x, axis % x.rank, bounds.highest)
    every = op.same(node, inputs={"X": x, "K": None}, k=size, outputs=2)
    places = arange(op, op.Squeeze(k))
    values, indices = (op.Gather(one, places, axis=axis) for one in every)
    return values, indices


MOST_SORTED = 1 << 16  # a larger upper bound of k is not used


def _longer(op: Builder, x: Value, axis: int, count: int) -> Value:
    """Pads the end of an axis of `x` with minus infinity, which sorts last."""
    pads = [0] * (2 * x.rank)
    pads[x.rank + axis] = count
    return op.Pad(x, pads=pads, value=-np.inf)


def _one_by_one(op: Builder, x: Value, k: Value, axis: int) -> tuple[Value, Value]:
    """Writes a Loop that finds the k largest elements along an axis, one element per iteration."""
    lowest, places = op.const(-np.inf, like=x), places_along(op, x, axis, x.rank - 1 - axis)
    none = op.Cast(op.Slice(x, starts=[0], ends=[0], axes=[axis]), to=T.INT64)

    def choose(b: Builder, i: Value, keep: Value, taken: Value, found: Value) -> tuple[Value, ...]:
        left = b.Where(taken, lowest, x)
        best = b.ReduceMax(left, axes=[axis])
        equal = b.Cast(~(left < best) & ~taken, to=T.FLOAT)
        first = b.ArgMax(equal, axis=axis)
        hit = b.Equal(places, first)
        return b.Identity(keep), taken | hit, b.Concat(found, first, axis=axis)

    taken = x < x  # false for each element
    body = op.graph(choose, (T.INT64, ()), (T.BOOL, ()), taken, none)
    state = taken, none
    indices = op.Loop(op.Squeeze(k), op.const(True, T.BOOL), *state, body=body, outputs=2)[1]
    return gather_elements(op, x, indices, x.rank, axis), indices


@form("TopK")
def typed_k(node: Node, op: Builder) -> Result:
    """K of TopK-10 is stored in int64_data, because onnxruntime 0.4 does not read raw_data."""
    constant = node["K"].const_or_none() if op.version == 10 else None
    return KEEP if constant is None else op.same(node, inputs={"K": op.const(constant)})


TOPK_11 = boundary(11, "TopK:2439e1", directions="up")


SORTED = {"sorted": "sorted=0 allows every order, also the sorted order"}


@adapter("TopK", 11, 10, handles_types=True, ignores=SORTED)
def topk_11_10(node: Node, op: Builder) -> Result:
    """Below opset 11, TopK has only floats and no `largest`; Cast and Neg surround TopK."""
    x, axis, largest = node["X"], node.int("axis"), node.int("largest")
    if x.elem_type in (T.INT64, T.UINT64):
        return by_comparing(node, op)
    turned = axis < -1 and x.rank_or_none is None
    if axis < -1:
        axis = -1 - axis if turned else axis + x.rank
    wide = op.Transpose(x) if turned else x
    if x.elem_type not in FLOATS:
        small = x.elem_type in SMALL_INTS
        wide = op.Cast(wide, to=T.FLOAT if small else T.DOUBLE)
    if not largest:
        wide = -wide
    values, indices = op.same(
        node, inputs={"X": wide}, axis=axis, largest=None, sorted=None, outputs=2
    )
    if not largest:
        values = -values
    if x.elem_type not in FLOATS:
        values = op.Cast(values, to=x.elem_type)
    return (op.Transpose(values), op.Transpose(indices)) if turned else (values, indices)


def by_comparing(node: Node, op: Builder) -> tuple[Value, Value]:
    """Writes TopK of 64-bit integers by counting the elements that come before each element."""
    x, rank = node["X"], node["X"].rank
    axis = node.int("axis") % rank
    one, other = op.Unsqueeze(x, axes=[axis + 1]), op.Unsqueeze(x, axes=[axis])
    above, below = other > one, other < one
    number = arange(op, size_of(op, x, axis))
    behind = list(range(1, rank - axis))
    row = op.Unsqueeze(number, axes=behind) if behind else number
    column = op.Unsqueeze(number, axes=list(range(1, rank - axis + 1)))
    tie = ~(above | below) & (row < column)
    before = (above if node.int("largest") else below) | tie
    place = op.ReduceSum(op.Cast(before, to=T.DOUBLE), axes=[axis + 1], keepdims=0)
    _, indices = op.TopK(-place, node["K"], axis=axis, outputs=2)
    return gather_elements(op, x, indices, rank, axis), indices


TOPK_24 = boundary(24, "TopK:d7a25a", cast=cast_around("float"))


@in_other_words("ArgMax ArgMin")
def place_of_the_best(node: Node, op: Builder) -> Result:
    """ArgMax becomes the maximum, over the largest elements, of their distance from the end."""
    x, dims, keep = node["data"], node["data"].dims_or_none, node.int("keepdims")
    axis = node.int("axis") % len(dims) if dims else 0
    size = dims[axis] if dims else None
    if dims is None or not isinstance(size, int) or not 0 < size <= EXACT_IN_FLOAT:
        return KEEP
    name, own = ("ReduceMax", "ReduceMin")[node.op == "ArgMin"], op.const([axis])
    best = op.emit(name, x, own)
    hits = op.Cast(op.Equal(x, best), to=T.FLOAT)
    last = op.version >= 12 and bool(node.int("select_last_index"))
    places = np.arange(size) if last else np.arange(size)[::-1]
    scores = hits * places.reshape(-1, *[1] * (len(dims) - 1 - axis)).astype(np.float32)
    largest = op.ReduceMax(scores, own, keepdims=keep)
    return op.Cast(largest if last else op.const(size - 1.0, like=largest) - largest, to=T.INT64)
