# SPDX-License-Identifier: Apache-2.0
"""Reduce operators, whose `axes` became an input in opset 13 (ReduceSum) or 18 (others)."""

import math
from functools import partial

from opshift.adapter import (
    KEEP,
    Builder,
    Node,
    Result,
    Surroundings,
    T,
    Value,
    adapter,
    alternative,
    boundary,
    by_width,
    form,
    in_other_words,
    misread,
    np,
)
from opshift.combinators import cast_around

from opshift_adapters._lib.axes import (
    EMPTY_NAME,
    has_empty_list,
    has_empty_name,
    in_order,
    without_empty,
)
from opshift_adapters._lib.kinds import FLOATS, WIDE_FLOATS, WIDE_INTS
from opshift_adapters.facts.illegal_attributes import REDUCING

MOST = " ".join(op for op in REDUCING.split() if op != "ReduceSum")


def from_the_front(node: Node, op: Builder) -> Result:
    """Below opset 11, `axes` must not be negative; if the rank is unknown, Transpose reverses x."""
    axes, x = node.ints_or_none("axes") or [], node["data"]
    if all(axis >= 0 for axis in axes):
        return KEEP
    if x.rank_or_none is None and all(axis < 0 for axis in axes):
        turned = {"data": op.Transpose(x)}
        return op.Transpose(op.same(node, inputs=turned, axes=[-1 - axis for axis in axes]))
    return op.same(node, axes=[axis if axis >= 0 else axis + x.rank for axis in axes])


REDUCE_11 = boundary(
    11,
    "ReduceL1:b5f042 ReduceL2:96277e ReduceLogSum:255062 ReduceLogSumExp:63512a "
    "ReduceMax:07a2ae ReduceMean:e8cd46 ReduceMin:363679 ReduceProd:4da2cb ReduceSum:1cd56b "
    "ReduceSumSquare:f8cec5",
    down=from_the_front,
)


def through_float(node: Node, op: Builder) -> Result:
    """Below opset 12, a reduction of 8-bit integers uses float, and Clip if x may be empty."""
    x = node["data"]
    low, high = T(x.elem_type).element.limits
    wide = op.same(node, inputs={"data": op.Cast(x, to=T.FLOAT)})
    shape = x.shape_or_none
    if shape is None or 0 in shape:
        wide = op.Clip(wide, op.const(low, T.FLOAT), op.const(high, T.FLOAT))
    return op.Cast(wide, to=x.elem_type)


REDUCE_12 = boundary(12, "ReduceMax:105389 ReduceMin:13391d", cast=through_float)
REDUCE_13 = boundary(
    13,
    "ReduceL1:144194 ReduceL2:e69472 ReduceLogSum:ca17b1 ReduceLogSumExp:40a58d "
    "ReduceMax:c06001 ReduceMean:46c62f ReduceMin:a70fe8 ReduceProd:7ad026 "
    "ReduceSumSquare:b75036",
)


@adapter("ReduceSum", 12, 13)
def reduce_sum_12_13(node: Node, op: Builder) -> Result:
    """Opset 13 made `axes` an input of ReduceSum; an empty list (all axes) becomes no input."""
    axes = node.ints_or_none("axes")
    if not axes:
        return op.same(node, axes=None)
    return op.same(node, inputs={"axes": op.const(axes)}, axes=None)


NOTHING_REDUCED = dict.fromkeys(("keepdims", "axes"), "over no axes, the operator reduces nothing")


def over(node: Node, op: Builder, axes: list[int]) -> Value:
    """Writes the reduction over known axes; without axes, only its element-wise part."""
    reduces_all = not node.int("noop_with_empty_axes")
    if axes or reduces_all:
        return op.same(node, inputs={"axes": None}, axes=axes or None, noop_with_empty_axes=None)
    return over_none(node, op)


def over_none(node: Node, op: Builder) -> Value:
    """Writes only the element-wise part of a reduction; without axes, keepdims has no effect."""
    x = node["data"]
    node.int("keepdims")  # counts as read
    if node.op in ("ReduceL1", "ReduceL2"):
        return op.Abs(x)
    if node.op == "ReduceSumSquare":
        return x * x
    if node.op == "ReduceLogSum":
        if x.elem_type in FLOATS:
            return op.Log(x)
        return op.Cast(op.Log(op.Cast(x, to=T.DOUBLE)), to=x.elem_type)
    return op.Identity(x)


def over_computed(node: Node, op: Builder) -> Value:
    """Writes the reduction over computed axes as nested If nodes, one for each axis."""
    axes, rank = node["axes"], node["data"].rank
    count = axes.shape_or_none
    named: dict[int, Value] = {}

    def decide(inner: Builder, chosen: list[int], axis: int) -> Value:
        missing = None if count is None else count[0] - len(chosen)
        if axis == rank or missing == 0:
            return over(node, inner, chosen)
        if missing == rank - axis:
            return over(node, inner, [*chosen, *range(axis, rank)])
        if axis not in named:
            named[axis] = is_named(op, axes, axis, rank)
        return inner.If(
            named[axis],
            then_branch=inner.graph(lambda b: decide(b, [*chosen, axis], axis + 1)),
            else_branch=inner.graph(lambda b: decide(b, chosen, axis + 1)),
        )

    return decide(op, [], 0)


def is_named(op: Builder, axes: Value, axis: int, rank: int) -> Value:
    """Writes a test whether `axes` contains an axis, as a negative or non-negative number."""
    front, back = op.Equal(axes, op.const(axis)), op.Equal(axes, op.const(axis - rank))
    return op.Cast(op.ReduceSum(op.Cast(front | back, to=T.FLOAT), keepdims=0), to=T.BOOL)


def known_axes(node: Node) -> list[int] | None:
    """Returns the constant axes, [] if the input is absent, or None if the axes are computed."""
    axes = node.input("axes")
    if axes is None:
        return []
    constant = axes.const_or_none()
    return None if constant is None else constant.ravel().tolist()


@adapter("ReduceSum", 13, 12, ignores=NOTHING_REDUCED)
def reduce_sum_13_12(node: Node, op: Builder) -> Result:
    """Below opset 13, `axes` of ReduceSum is an attribute; computed axes become nested If nodes."""
    axes = known_axes(node)
    return over_computed(node, op) if axes is None else over(node, op, axes)


@adapter(MOST.split(), 17, 18)
def reduce_17_18(node: Node, op: Builder) -> Result:
    """Opset 18 made `axes` an input of reductions; an empty list (all axes) becomes no input."""
    return reduce_sum_12_13(node, op)


@adapter(MOST.split(), 18, 17, ignores=NOTHING_REDUCED)
def reduce_18_17(node: Node, op: Builder) -> Result:
    """Below opset 18, `axes` is an attribute; computed axes need ReduceSum or nested If nodes."""
    axes = known_axes(node)
    if axes is not None:
        return over(node, op, axes)
    return through_sum(node, op) or over_computed(node, op)


def through_sum(node: Node, op: Builder) -> Value | None:
    """Writes the reduction over computed axes with ReduceSum, or returns None if it cannot."""
    x, keepdims = node["data"], node.int("keepdims")
    noop = node.int("noop_with_empty_axes")

    def total(of: Value) -> Value:
        return op.ReduceSum(of, node["axes"], keepdims=keepdims, noop_with_empty_axes=noop)

    if node.op == "ReduceL1":
        return total(op.Abs(x))
    if node.op == "ReduceSumSquare":
        return total(x * x)
    if node.op == "ReduceL2" and x.elem_type in FLOATS:
        return op.Sqrt(total(x * x))
    if node.op == "ReduceLogSum" and x.elem_type in FLOATS:
        return op.Log(total(x))
    if node.op == "ReduceMean" and x.rank_or_none is None and x.elem_type in WIDE_FLOATS:
        whole = total(x)
        groups = op.Max(op.Size(whole), op.const(1))
        return whole / op.Cast(op.Size(x) / groups, to=x.elem_type)
    return None


REDUCE_20 = boundary(20, "ReduceMax:225c2f ReduceMin:bfb4c3", cast=cast_around("uint8"))


@adapter("ReduceLogSum", 27, 28, handles_types=True)
def reduce_log_sum_27_28(node: Node, op: Builder) -> Result:
    """Opset 28 removed integers from ReduceLogSum; ReduceSum, Log in double and Cast replace it."""
    x = node["data"]
    if x.elem_type in FLOATS:
        return KEEP
    keep, unless_empty = node.int("keepdims"), node.int("noop_with_empty_axes")
    total = op.ReduceSum(x, node.input("axes"), keepdims=keep, noop_with_empty_axes=unless_empty)
    return op.Cast(op.Log(op.Cast(total, to=T.DOUBLE)), to=x.elem_type)


@adapter("ReduceLogSumExp", 27, 28, handles_types=True)
def reduce_log_sum_exp_27_28(node: Node, op: Builder) -> Result:
    """Opset 28 removed integers from ReduceLogSumExp; they are computed in double and truncated."""
    x = node["data"]
    if x.elem_type in FLOATS:
        return KEEP
    return op.Cast(op.same(node, inputs={"data": op.Cast(x, to=T.DOUBLE)}), to=x.elem_type)


REDUCE_28 = boundary(28, "ReduceLogSum:f18f43 ReduceLogSumExp:8f14cb", directions="down")


@form(f"{MOST} ReduceSum")
def axes_in_order(node: Node, op: Builder) -> Result:
    """Writes `axes` in ascending order and without empty lists, as some runtimes require."""
    is_scalar = op.version < 13 and node["data"].rank_or_none == 0
    if keeps_all.run(node) or (is_scalar and not node.ints_or_none("axes")):
        return over_none(node, op)
    found = without_empty(node, op)
    return in_order(node, op) if found is None else found


@misread(f"{MOST} ReduceSum", "onnxruntime 1.6..1.23", since=13, source="2026-11-30 1.6..1.32")
def keeps_all(node: Node) -> bool:
    """{op} without `axes` does not support noop_with_empty_axes."""
    is_noop = "noop_with_empty_axes" in node.attributes and node.int("noop_with_empty_axes") == 1
    return is_noop and all(axes is None for axes in node.inputs[1:])


@misread(f"{MOST} ReduceSum", "onnxruntime 0.4..1.2", source="2026-11-30 1.0..1.32: ten operators")
def reduces_a_scalar(node: Node) -> bool:
    """{op} of a scalar crashes the process."""
    return node["data"].rank_or_none == 0


@misread(
    f"{MOST} ReduceSum Squeeze",
    "onnxruntime 1.2..1.16",
    source="2026-11-29 18 releases of onnxruntime: ReduceMax and ReduceSum at opset 11",
    before=18,
)
def has_empty_axes(node: Node) -> bool:
    """{op} with an empty list as `axes` is rejected when the model loads."""
    return has_empty_list(node)


@EMPTY_NAME(
    f"{MOST} ReduceSum", releases="onnxruntime 1.6..1.16", source="2026-11-29 1.7..1.32: 5 nodes"
)
def has_unnamed_axes(node: Node) -> bool:
    return has_empty_name(node)


@alternative("ReduceMean", runtime="onnxruntime==1.10")
def sum_by_count(node: Node, op: Builder) -> Result:
    """ReduceMean of int64 is written as ReduceSum / count, which truncates like the mean."""
    # A matrix of floats gets one more axis: OpenCV 4.5.5 has no ReduceMean of a matrix.
    x, shape = node["data"], node["data"].shape_or_none
    if x.elem_type_or_none in FLOATS:
        return of_one_matrix(node, op)
    if x.elem_type_or_none != T.INT64 or shape is None or op.version >= 18:
        return KEEP
    axes = [axis % len(shape) for axis in node.attr("axes") or range(len(shape))]
    count, keep = int(np.prod([shape[axis] for axis in axes])), node.int("keepdims")
    if not count:  # an integer division by zero crashes the process
        return KEEP
    return op.ReduceSum(x, op.const(axes), keepdims=keep) / op.const(count)


# Some runtimes compute these in double, which cannot represent products of wide integers.
OF_PRODUCTS = by_width("ReduceProd ReduceSumSquare ReduceL2 ReduceLogSum ReduceLogSumExp")
FEW = 32  # the largest axis whose elements are multiplied one by one


@alternative("ReduceProd", runtime="onnxruntime==1.2")
def by_single_products(node: Node, op: Builder) -> Result:
    """ReduceProd of few int64 elements becomes Mul nodes, because some runtimes use double."""
    x, shape = node["data"], node["data"].shape_or_none
    if x.elem_type_or_none != T.INT64 or not shape or op.version >= 18:
        return of_one_matrix(node, op)
    axes = {axis % len(shape) for axis in node.attr("axes") or range(len(shape))}
    if any(not 1 <= shape[axis] <= FEW for axis in axes):
        return KEEP
    keep = node.int("keepdims")
    for axis in sorted(axes, reverse=True):
        first, *others = (
            op.Gather(x, op.const([i] if keep else i), axis=axis) for i in range(shape[axis])
        )
        x = first
        for other in others:
            x = op.Mul(x, other)
    return x


def names_axes(node: Node) -> bool:
    return node.has("axes")


NAMED = partial(
    misread,
    says="{op} with the attribute `axes` reduces all axes instead",
    source="2026-11-29 2022.1..2026.4: opsets 11..18",
    since=13,
    before=18,
)
NAMED_AXES = (
    NAMED("ReduceL1", "openvino 2025.4..2026.4")(names_axes),
    NAMED("ReduceLogSum ReduceLogSumExp", "openvino 2026.4")(names_axes),
)


OF_OPENCV = partial(misread, "ReduceMax ReduceMean ReduceSum", "opencv 4.5.5")


@OF_OPENCV(
    "{op} requires ascending `axes`",
    source="2026-11-28 4.5.5: three reductions at opset 11, 11 lists of axes",
)
def names_axes_out_of_order(node: Node) -> bool:
    axes = node.ints("axes") if "axes" in node.attributes else []
    rank = node["data"].rank_or_none
    counted = [axis + (rank or 0) if axis < 0 else axis for axis in axes]
    is_certain = rank is not None or len({axis < 0 for axis in axes}) < 2
    return is_certain and counted != sorted(counted)


@OF_OPENCV(
    "{op} of a matrix with the attribute `axes` is not supported",
    source="2026-11-29 4.5.5: three reductions of ranks 2 and 3 at opset 11",
)
def reduces_a_matrix(node: Node) -> bool:
    return "axes" in node.attributes and node["data"].rank_or_none == 2


SCALED = "Abs Add BatchNormalization Cast Clip Div Elu Identity Mul Neg Relu Sigmoid Sqrt Sub"
MERGING = "ReduceL1 ReduceL2 ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare"
MERGED = partial(
    misread,
    says="{op} may be merged with a scale or shift of its result, which gives wrong numbers",
    source="2026-11-30 6 releases of OpenVINO: 1,588 forms of a reduction and Mul;"
    " 1,064 forms of global poolings in 2022.1, 2023.3, 2025.4 and 2026.4",
)


@MERGED(f"{MERGING} GlobalAveragePool GlobalLpPool GlobalMaxPool", "openvino 2022.1")
def may_be_scaled(node: Node, around: Surroundings) -> bool | None:
    """The sizes decide for three axes, and for more axes if they are removed."""
    x, y = node.inputs[0], node.outputs[0]
    removed = node.op in MERGING and not node.int("keepdims")
    merges = x and y and (x.rank == 3 or (x.rank > 3 and removed))
    chain = around.only_readers(y, SCALED.split()) if y and merges else ()
    return None if any(n.op in ("Neg", "Sub") or fixed for n, fixed in chain) else False


@MERGED(f"{MERGING} GlobalAveragePool GlobalMaxPool", "openvino 2022.1..2026.4")
def may_be_scaled_by_several(node: Node, around: Surroundings) -> bool | None:
    x, y = node.inputs[0], node.outputs[0]
    chain = around.only_readers(y, SCALED.split()) if x and y and x.rank < 4 else ()
    sizes = [value.shape_or_none for _, fixed in chain for value in fixed]
    return None if any(size not in ((), (1,)) for size in sizes) else False


@alternative("ReduceL2 ReduceMax ReduceMin ReduceSum ReduceSumSquare", runtime="opencv==4.5.5")
def of_one_matrix(node: Node, op: Builder) -> Result:
    """OpenCV 4.5.5 needs one more axis for a matrix; Max stops a wrong fusion in OpenVINO."""
    x = node["data"]
    if x.elem_type_or_none not in (*WIDE_FLOATS, T.FLOAT16):
        return KEEP
    if "axes" not in node.attributes or x.rank_or_none != 2:
        result = op.same(node)
        return op.Max(result, result)
    longer, front = op.Unsqueeze(x, op.const([0])), [axis % 2 + 1 for axis in node.ints("axes")]
    result = op.same(node, inputs={"data": longer}, axes=front)
    return op.Squeeze(op.Max(result, result), op.const([0]))


@alternative("ReduceL1 ReduceLogSum", runtime="openvino==2026.4")
def with_reduce_sum(node: Node, op: Builder) -> Result:
    """ReduceL1 is written as ReduceSum of Abs, and ReduceLogSum as Log of ReduceSum."""
    x = node["data"]
    if x.elem_type_or_none not in FLOATS or op.version >= 18:
        return KEEP
    if node.op == "ReduceL1":
        return op.Max(*[_reduced(node, op, "ReduceSum", op.Abs(x))] * 2)  # OpenVINO merges no Max
    return op.Log(_reduced(node, op, "ReduceSum", x))


@misread("ReduceLogSumExp", "openvino 2022.1..2025.4", source="2026-11-29 2022.1..2025.4", since=11)
def may_be_far_from_zero(node: Node) -> bool:
    """ReduceLogSumExp of numbers far from 0 overflows to infinity."""
    return True


@misread("ReduceLogSumExp", "onnxruntime 1.6..1.26", source="2026-11-30 1.0..1.32: 3 opsets")
def rounds_each_summand(node: Node) -> bool | None:
    """ReduceLogSumExp of integers may differ by 1."""
    return None if node["data"].elem_type_or_none in WIDE_INTS else False


@alternative("ReduceLogSumExp", runtime="openvino==2022.1")
def around_the_largest(node: Node, op: Builder) -> Result:
    """ReduceLogSumExp adds the largest element after Log; integers are computed in double."""
    x, in_double = node["data"], reduce_log_sum_exp_27_28.run
    if x.elem_type_or_none in WIDE_INTS and in_double:
        return in_double(node, op)
    if x.elem_type_or_none not in (*WIDE_FLOATS, T.FLOAT16) or not 11 <= op.version < 18:
        return KEEP
    axes = node.ints_or_none("axes")
    end = T(x.elem_type).fraction.largest
    found = op.ReduceMax(x, op.const(axes)) if axes else op.ReduceMax(x)
    largest = op.Clip(found, op.const(-end, like=x), op.const(end, like=x))
    total = op.Log(op.ReduceSum(op.Exp(x - largest), op.const(axes) if axes else None)) + largest
    if node.int("keepdims"):
        return total
    return op.Squeeze(total, op.const(axes)) if axes else op.Squeeze(total)


def _reduced(node: Node, op: Builder, name: str, x: Value) -> Value:
    """Writes the reduction `name` of `x` over the axes of the node."""
    keep = node.int("keepdims")
    if op.version >= 18:
        noop = node.int("noop_with_empty_axes")
        return op.emit(name, x, node.input("axes"), keepdims=keep, noop_with_empty_axes=noop)
    axes = node.ints_or_none("axes")
    if axes is None:
        return op.emit(name, x, keepdims=keep)
    if name == "ReduceSum":
        return op.ReduceSum(x, op.const(axes), keepdims=keep)
    return op.emit(name, x, axes=axes, keepdims=keep)


@in_other_words("ReduceL1 ReduceL2 ReduceLogSum ReduceSumSquare")
def by_sum(node: Node, op: Builder) -> Result:
    """ReduceL1, ReduceL2, ReduceLogSum and ReduceSumSquare are written with ReduceSum."""
    x = node["data"]
    if x.elem_type not in FLOATS:
        return KEEP
    first = {"ReduceL1": op.Abs(x), "ReduceLogSum": x}.get(node.op)
    total = _reduced(node, op, "ReduceSum", x * x if first is None else first)
    if node.op == "ReduceL2":
        return op.Sqrt(total)
    return op.Log(total) if node.op == "ReduceLogSum" else total


@in_other_words("ReduceMax ReduceMin")
def of_the_negative(node: Node, op: Builder) -> Result:
    """ReduceMax of floats is written as -ReduceMin(-x), and ReduceMin as -ReduceMax(-x)."""
    x = node["data"]
    if x.elem_type not in FLOATS:
        return KEEP
    other = "ReduceMin" if node.op == "ReduceMax" else "ReduceMax"
    return -_reduced(node, op, other, -x)


@in_other_words("ReduceProd")
def by_halves(node: Node, op: Builder) -> Result:
    """ReduceProd is written as repeated products of the two halves of an axis."""
    x, shape, axes = node["data"], node["data"].shape_or_none, _known_axes(node, op)
    if shape is None or axes is None or any(not shape[axis] for axis in axes):
        return KEEP
    for axis in axes:
        x = _product(op, x, axis, shape[axis])
    if node.int("keepdims") or not axes:
        return x if axes else op.Identity(x)
    return op.Reshape(x, op.const([size for at, size in enumerate(shape) if at not in axes]))


def _product(op: Builder, x: Value, axis: int, size: int) -> Value:
    """Writes the product along an axis, which is kept with size 1."""
    along, left = op.const([axis]), None
    while size > 1:
        half = size // 2
        if size % 2:
            last = op.Slice(x, op.const([size - 1]), op.const([size]), along)
            left = last if left is None else left * last
        first = op.Slice(x, op.const([0]), op.const([half]), along)
        x = first * op.Slice(x, op.const([half]), op.const([2 * half]), along)
        size = half
    return x if left is None else x * left


def _known_axes(node: Node, op: Builder) -> list[int] | None:
    """Returns the axes of a reduction counted from the front; None if axes or rank are unknown."""
    rank = node["data"].rank_or_none
    given = node.input("axes") if op.version >= 18 else None
    if rank is None or (given is not None and given.const_or_none() is None):
        return None
    listed = [int(axis) for axis in given.const()] if given is not None else []
    listed = listed if op.version >= 18 else node.ints_or_none("axes") or []
    none = op.version >= 18 and bool(node.int("noop_with_empty_axes"))
    return sorted(axis % rank for axis in listed) if listed or none else list(range(rank))


@in_other_words("ReduceMean")
def sum_by_number(node: Node, op: Builder) -> Result:
    """ReduceMean of floats is written as ReduceSum divided by the number of elements."""
    x, shape, axes = node["data"], node["data"].dims_or_none, _known_axes(node, op)
    if x.elem_type not in WIDE_FLOATS or shape is None or axes is None:
        return KEEP  # a sum of float16 may overflow
    sizes = [shape[axis] for axis in axes]
    if not all(isinstance(size, int) and size for size in sizes):
        return KEEP
    total = _reduced(node, op, "ReduceSum", x)
    return total / op.const(math.prod(int(size or 0) for size in sizes), like=x)


@in_other_words("ReduceLogSumExp")
def beside_the_largest(node: Node, op: Builder) -> Result:
    """ReduceLogSumExp is written as largest + Log(sum of Exp(x - largest))."""
    x, axes = node["data"], _known_axes(node, op)
    if op.version < 18 or x.elem_type not in FLOATS or axes is None:
        return KEEP  # below opset 18, `around_the_largest` is used
    end, at = T(x.elem_type).fraction.largest, op.const(axes, T.INT64)
    none = int(not axes)
    found = op.ReduceMax(x, at, noop_with_empty_axes=none)
    largest = op.Max(op.Min(found, op.const(end, like=x)), op.const(-end, like=x))
    total = op.ReduceSum(op.Exp(x - largest), at, noop_with_empty_axes=none)
    result = op.Log(total) + largest
    return result if node.int("keepdims") or none else op.Squeeze(result, at)
