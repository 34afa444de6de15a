# SPDX-License-Identifier: Apache-2.0
"""CumSum and CumProd: cumulative sums and products, by steps of 1, 2, 4 and so on, or by Scan."""

from collections.abc import Callable
from typing import Any

from opshift.adapter import Builder, Node, Result, T, Value, adapter, boundary, np

from opshift_adapters._lib.blocks import END, counted_axis, one_slice, part
from opshift_adapters._lib.kinds import cast_over

Step = Callable[[Builder, Value, Value], Value]


def along(node: Node, op: Builder, step: Step, start: int) -> Value:
    """Writes a cumulative operation from `start`; `step` combines a result with an element."""
    x = node["x"]
    narrow = x.elem_type == T.BFLOAT16 and op.version < 16  # Scan and If do not pass bfloat16 there
    wide = op.Cast(x, to=T.FLOAT) if narrow else x
    if (axis := _axis_of_known_size(node)) is not None:
        chosen = _in_runs(node, op, wide, step, start, axis)
    elif _may_be_empty(x):
        chosen = op.If(  # runtimes cannot run a Scan over an empty tensor
            op.Cast(op.Size(x), to=T.BOOL),
            then_branch=op.graph(lambda b: along_any_axis(node, b, wide, step, start)),
            else_branch=op.graph(lambda b: b.Identity(wide)),
        )
    else:
        chosen = along_any_axis(node, op, wide, step, start)
    return op.Cast(chosen, to=x.elem_type) if narrow else chosen


def _axis_of_known_size(node: Node) -> int | None:
    """Returns the axis if axis and size are known and the size is not 0, else None."""
    dims, axis = node["x"].dims_or_none, node["axis"].const_or_none()
    if not dims or axis is None or axis.size != 1:
        return None
    size = dims[axis.item()]
    return int(axis.item()) % len(dims) if isinstance(size, int) and size > 0 else None


def _in_runs(node: Node, op: Builder, wide: Value, step: Step, start: int, axis: int) -> Value:
    """Combines each element with all earlier elements; each step doubles their number."""
    x, exclusive, reverse = node["x"], node.int("exclusive"), node.int("reverse")
    size = x.dims[axis]
    assert isinstance(size, int)
    runs = op.Concat(wide, one_slice(op, wide, start, axis), axis=axis)
    at = np.arange(size + 1)
    before = np.where(at < size, at + 1 if reverse else at - 1, size)
    before = np.where(before < 0, size, before)
    if exclusive:
        runs = op.Gather(runs, op.const(before), axis=axis)
    reach = 1
    while reach < size:
        after = step(op, op.Gather(runs, op.const(before), axis=axis), runs)
        same = wide.elem_type == x.elem_type
        runs = after if same else cast_over(op, after, x.elem_type, wide.elem_type)
        before, reach = before[before], 2 * reach
    return op.Slice(runs, op.const([0]), op.const([size]), op.const([axis]))


def _may_be_empty(x: Value) -> bool:
    dims = x.dims_or_none
    return dims is None or not all(isinstance(size, int) and size > 0 for size in dims)


def along_any_axis(node: Node, op: Builder, x: Value, step: Step, start: int) -> Value:
    constant = node["axis"].const_or_none()
    if constant is not None:
        return along_axis(node, op, x, step, start, constant.item())
    axis, rank = node["axis"], node["x"].rank
    axis = op.Cast(op.Reshape(axis, op.const([])), to=T.INT64)

    def decide(op: Builder, place: int) -> Value:
        if place == rank - 1:
            return along_axis(node, op, x, step, start, place)
        front, back = op.Equal(axis, op.const(place)), op.Equal(axis, op.const(place - rank))
        return op.If(
            front | back,
            then_branch=op.graph(lambda b: along_axis(node, b, x, step, start, place)),
            else_branch=op.graph(lambda b: decide(b, place + 1)),
        )

    return decide(op, 0)


def along_axis(node: Node, op: Builder, wide: Value, step: Step, start: int, axis: int) -> Value:
    """Writes a Scan of `wide` along one axis; each step rounds to the element type of `x`."""
    x, exclusive, reverse = node["x"], node.int("exclusive"), node.int("reverse")
    axis = counted_axis(x, axis)
    kind = x.elem_type
    dims = x.dims_or_none
    if dims is None:
        wide, dims, axis = _with_three_axes(op, wide, axis), (None,) * 3, 1
    others = [*dims[:axis], *dims[axis:][1:]]

    def body(b: Builder, before: Value, element: Value) -> tuple[Value, Value]:
        after = step(b, before, element)
        if wide.elem_type != kind:
            after = cast_over(b, after, kind, wide.elem_type)
        return after, before if exclusive else after

    state = op.Expand(op.const(start, like=wide), without(op, wide, axis))
    shape = (wide.elem_type, others)
    named: dict[str, Any] = {"body": op.graph(body, shape, shape), "num_scan_inputs": 1}
    named |= {"scan_input_axes": [axis], "scan_output_axes": [axis]}
    named |= {"scan_input_directions": [reverse], "scan_output_directions": [reverse]}
    found: Value = op.Scan(state, wide, outputs=2, **named)[1]
    if not all(isinstance(size, int) for size in others):
        found = op.Reshape(found, op.Shape(x))  # the body does not declare the sizes of an element
    return found


def _with_three_axes(op: Builder, x: Value, axis: int) -> Value:
    """Merges the axes before `axis` into one axis, and the axes after `axis` into another."""
    # onnxruntime runs a Scan only if the ranks in the body are known.
    size = part(op, op.Shape(x), axis, axis + 1 or END)
    shape = op.Concat(op.const([0]), size, op.const([-1]), axis=0)
    return op.Reshape(op.Flatten(x, axis=axis, since=11), shape)


def without(op: Builder, x: Value, axis: int) -> Value:
    """Returns the shape of `x` without one axis."""
    shape = x.shape_or_none
    if shape is not None:
        return op.const([*shape[:axis], *shape[axis + 1 :]])
    sizes = op.Shape(x)
    if axis == 0:
        return part(op, sizes, 1)
    return op.Concat(part(op, sizes, 0, axis), part(op, sizes, axis + 1), axis=0)


LONGEST_PICKED = 64  # the longest axis to gather; it multiplies the number of elements


@adapter("CumSum", 11, 10, in_other_words=True)
def cum_sum_11_10(node: Node, op: Builder) -> Result:
    """Below opset 11, CumSum becomes Gather and ReduceSum, doubling steps, or a Scan."""
    short = _short_axis(node["x"], node["axis"])
    if short is not None:
        return _sums_of_picked(node, op, *short)
    return _step_by_step(node, op)


def _step_by_step(node: Node, op: Builder) -> Value:
    """Below opset 14, CumSum of 16-bit floats is written as doubling steps or as a Scan."""
    return along(node, op, lambda b, before, element: before + element, 0)


def _short_axis(x: Value, axis: Value) -> tuple[int, int] | None:
    """Returns axis and size of a short axis of floats, else None (ReduceSum of ints is inexact)."""
    dims, known = x.dims_or_none, axis.const_or_none()
    if dims is None or known is None or x.elem_type not in (T.FLOAT, T.DOUBLE):
        return None
    (size,) = dims[known.item() :][:1] or (None,)
    if not isinstance(size, int) or not 0 < size <= LONGEST_PICKED:
        return None
    return int(known.item()) % len(dims), size


def _sums_of_picked(node: Node, op: Builder, axis: int, size: int) -> Value:
    """Returns, for each element, the sum of all elements up to this element."""
    x, place = node["x"], np.arange(size)
    before = place - place[:, None]
    before = -before if node.int("reverse") else before
    picked = np.where(before < (0 if node.int("exclusive") else 1), place, size)
    pads = np.zeros(2 * x.rank, dtype=np.int64)
    pads[x.rank + axis] = 1
    lines = op.Gather(op.Pad(x, pads=pads.tolist()), op.const(picked), axis=axis)
    return op.ReduceSum(lines, axes=[axis + 1], keepdims=0)


CUM_SUM_14 = boundary(14, "CumSum:5c797f", cast=_step_by_step)


@adapter("CumProd", 26, 25, in_other_words=True)
def cum_prod_26_25(node: Node, op: Builder) -> Result:
    """Below opset 26, CumProd is written as doubling steps or as a Scan."""
    return along(node, op, lambda b, before, element: before * element, 1)
