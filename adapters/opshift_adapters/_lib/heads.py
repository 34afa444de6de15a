# SPDX-License-Identifier: Apache-2.0
"""Heads of attention: their axis, and the attention of contrib operators (opset 13 and later)."""

import math
from collections.abc import Sequence

from opshift.adapter import Builder, InvalidModel, Node, Refusal, Value, Why

from opshift_adapters._lib.blocks import END, count_elements, part
from opshift_adapters._lib.contrib import attribute

LOWEST = -(2 - 2**-23) * 2.0**127  # the lowest finite float


def apart(op: Builder, x: Value, heads: int) -> Value:
    """Splits heads: [batch, sequence, heads x size] to [batch, heads, sequence, size]."""
    return op.Transpose(with_last_split(op, x, [heads, -1]), perm=[0, 2, 1, 3])


def with_last_split(op: Builder, x: Value, sizes: Sequence[int]) -> Value:
    """Splits the width of [batch, sequence, width] into `sizes`; -1 is the remaining size."""
    dims, at, product = x.dims_or_none, sizes.index(-1), -math.prod(sizes)
    whole = dims[2] if dims is not None else None
    if isinstance(whole, int) and whole:
        return op.Reshape(x, op.const([0, 0, *sizes[:at], whole // product, *sizes[at + 1 :]]))
    shape = op.Shape(x)
    rest = part(op, shape, 2) / op.const([product])
    before, after = ([op.const(list(s))] if s else [] for s in (sizes[:at], sizes[at + 1 :]))
    goal = op.Concat(part(op, shape, 0, 2), *before, rest, *after, axis=0)
    return op.Reshape(x, goal, allowzero=1)


def together(op: Builder, x: Value, whole: int | None = None) -> Value:
    """Merges heads: [batch, heads, length, size] to [batch, length, heads x size]."""
    return with_last_merged(op, op.Transpose(x, perm=[0, 2, 1, 3]), whole)


def with_last_merged(op: Builder, x: Value, whole: int | None = None) -> Value:
    """Merges all axes from the third on; `whole` is the size of the merged axis if it is known."""
    sizes = (x.dims_or_none or (None,) * 3)[2:]
    fixed = [size for size in sizes if isinstance(size, int)]
    if len(fixed) == len(sizes):
        whole = math.prod(fixed)
    if whole:
        return op.Reshape(x, op.const([0, 0, whole]))
    shape = op.Shape(x)
    goal = op.Concat(part(op, shape, 0, 2), count_elements(op, part(op, shape, 2)), axis=0)
    return op.Reshape(x, goal, allowzero=1)


def width(x: Value, axis: int, what: str) -> int:
    """Returns one size of a value; refuses the node if the size is unknown."""
    dims = x.dims_or_none
    size = dims[axis] if dims is not None else None
    if not isinstance(size, int):
        raise Refusal(Why.NEEDS_SHAPE, f"the length of {what} must be known")
    return size


def length(op: Builder, x: Value, axis: int) -> Value:
    """Returns one size of a value as an int64 scalar."""
    return op.Gather(op.Shape(x), op.const(axis), axis=0)


def with_past(op: Builder, past: Value | None, new: Value) -> Value:
    """Appends new keys or values to the past keys or values, if there are any."""
    return new if past is None else op.Concat(past, new, axis=2)


def attended(op: Builder, q: Value, k: Value, v: Value, scale: float, biases: list[Value]) -> Value:
    """Returns the values weighted by the softmax of the scaled products plus biases."""
    products = op.MatMul(q, op.Transpose(k, perm=[0, 1, 3, 2]))
    scores = products * op.const(scale, like=q)
    for bias in biases:
        scores = scores + bias
    return together(op, op.MatMul(op.Softmax(scores, axis=-1), v))


def scale_of(node: Node, size: int) -> float:
    """Returns the factor of the products: the attribute `scale`, or 1 / sqrt(size of a head)."""
    scale: float = attribute(node, "scale", 0.0)
    if not scale and not size:
        raise InvalidModel(f"{node.op} {node.name!r} has heads of size 0")
    return scale or 1 / math.sqrt(size)


def padding(node: Node, op: Builder, mask: Value, batch: Value, k: Value, fill: Value) -> Value:
    """Returns the bias of a padding mask; a mask of rank 1 lists ends (and starts) of rows."""
    none = op.const(0, like=k)
    visible = _between(op, mask, batch, k) if mask.rank == 1 else mask > 0
    added = op.Where(visible, none, fill)
    if mask.rank == 3:
        return op.Unsqueeze(added, op.const([1]))
    if mask.rank > 3:
        raise Refusal(
            Why.NOT_EXPRESSIBLE, f"{node.op}: a mask of rank {mask.rank} is impossible in ai.onnx"
        )
    return op.Unsqueeze(added, op.const([1, 2]))


def _between(op: Builder, mask: Value, batch: Value, k: Value) -> Value:
    """Returns whether a key lies between the start (by default 0) and the end of its row."""
    rows, places = length(op, batch, 0), op.Range(op.const(0), length(op, k, 2), op.const(1))
    places = op.Cast(places, to=mask.elem_type)
    count = op.Unsqueeze(rows, op.const([0]))
    ends = op.Slice(mask, op.const([0]), count, op.const([0]))
    before = places < op.Unsqueeze(ends, op.const([1]))
    own, whole = mask.dims[0], batch.dims[0]
    if own is not None and own == whole:
        return before
    none = ends * op.const(0, like=mask)  # without starts, all rows begin at 0
    joined = op.Concat(mask, none, axis=0)
    starts = op.Slice(joined, count, count + count, op.const([0]))
    return before & op.GreaterOrEqual(places, op.Unsqueeze(starts, op.const([1])))


def causal(op: Builder, q: Value, k: Value, fill: float) -> Value:
    """Returns the bias that hides the keys after each query."""
    one, zero = op.const(1), op.const(0)
    total, queries_length = length(op, k, 2), length(op, q, 2)
    keys = op.Range(zero, total, one)
    queries = op.Range(total - queries_length, total, one)
    visible = op.LessOrEqual(keys, op.Unsqueeze(queries, op.const([1])))
    return op.Where(visible, op.const(0, like=q), op.const(fill, like=q))


def biases_of(
    node: Node, op: Builder, mask: Value | None, bias: Value | None, q: Value, k: Value
) -> list[Value]:
    """Returns all biases of the scores: the padding mask, the causal mask and the bias input."""
    fill = op.const(attribute(node, "mask_filter_value", -10000.0), like=k)
    biases = [] if mask is None else [padding(node, op, mask, q, k, fill)]
    if node.int("unidirectional"):
        biases.append(causal(op, q, k, LOWEST))
    return biases if bias is None else [*biases, bias]


def turn(
    op: Builder, x: Value, cos: Value, sin: Value, *, pairs: bool, half: int | None, partly: bool
) -> Value:
    """Rotates pairs of numbers: neighbours if `pairs`, else numbers from both halves of the head.

    If `partly` is set, only the first 2 * half numbers rotate. Else, `half` may be unknown.
    """
    turning = last(op, x, 0, 2 * half) if partly and half else x
    if pairs:
        first, second = last(op, turning, 0, END, 2), last(op, turning, 1, END, 2)
    elif half is None:
        first, second = op.Split(turning, axis=-1, num_outputs=2, outputs=2)
    else:
        first, second = op.Split(turning, op.const([half, half]), axis=-1, outputs=2)
    real = cos * first - sin * second
    imaginary = sin * first + cos * second
    if pairs:
        each = [op.Unsqueeze(part, op.const([-1])) for part in (real, imaginary)]
        turned = op.Reshape(op.Concat(*each, axis=-1), op.Shape(turning))
    else:
        turned = op.Concat(real, imaginary, axis=-1)
    return op.Concat(turned, last(op, x, 2 * half, END), axis=-1) if partly and half else turned


def last(op: Builder, x: Value, start: int, end: int, step: int = 1) -> Value:
    """Returns a slice of the last axis."""
    bounds = op.const([start]), op.const([end]), op.const([-1])
    return op.Slice(x, *bounds) if step == 1 else op.Slice(x, *bounds, op.const([step]))
