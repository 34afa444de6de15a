# SPDX-License-Identifier: Apache-2.0
"""NonMaxSuppression removes boxes that overlap a box with a higher score."""

import functools
from dataclasses import dataclass

from opshift.adapter import Builder, Node, Result, T, Value, adapter, boundary, np

from opshift_adapters._lib.blocks import arange, part, size_of

NMS_11 = boundary(11, "NonMaxSuppression:ba6b91")


NO_BOXES = dict.fromkeys(
    ("boxes", "scores", "iou_threshold", "score_threshold", "center_point_box"),
    "NonMaxSuppression without max_output_boxes_per_class selects no box",
)


@adapter("NonMaxSuppression", 10, 9, ignores=NO_BOXES)
def non_max_suppression_10_9(node: Node, op: Builder) -> Result:
    """Below opset 10, a Loop selects the best box and removes the boxes that overlap the best."""
    limit = node.input("max_output_boxes_per_class")
    if limit is None:
        return op.Identity(op.const(np.zeros((0, 3), np.int64)))
    field = _field(node, op, limit)
    body = op.graph(
        lambda b, i, _, alive: _round(b, field, i, alive), (T.INT64, ()), (T.BOOL, ()), field.alive
    )
    going = op.const(True, T.BOOL)
    _, chosen, valid = op.Loop(field.count, going, field.alive, body=body, outputs=3)
    chosen, valid = op.Transpose(chosen, perm=[1, 2, 0]), op.Transpose(valid, perm=[1, 2, 0])
    box = op.Compress(chosen, op.Reshape(valid, op.const([-1])))
    batch_and_class = op.Slice(op.NonZero(valid), starts=[0], ends=[2], axes=[0])
    rows = op.Concat(batch_and_class, op.Unsqueeze(box, axes=[0]), axis=0)
    return op.Transpose(rows, perm=[1, 0])


@dataclass(frozen=True, slots=True)
class Field:
    """The candidate boxes, [batch, class or 1, box], and the limits of the selection."""

    scores: Value
    alive: Value
    sides: tuple[tuple[Value, Value], ...]
    area: Value
    count: Value
    numbers: Value  # the indices of the boxes
    offsets: Value  # the flat index of each batch's first box
    limit: Value
    overlap: Value


def _field(node: Node, op: Builder, limit: Value) -> Field:
    boxes, scores, alive = _candidates(node, op)
    a, b, c, d = (
        op.Transpose(op.Slice(boxes, starts=[k], ends=[k + 1], axes=[2]), perm=[0, 2, 1])
        for k in range(4)
    )
    sides = tuple(_side(node, op, *pair) for pair in ((a, c), (b, d)))
    area = op.Mul(*(high - low for low, high in sides))
    count, batches = size_of(op, scores, 2), arange(op, size_of(op, scores, 0))
    offsets = op.Reshape(batches, op.const([-1, 1])) * count
    overlap = node.input("iou_threshold")
    numbers, limit = arange(op, count), op.Reshape(limit, op.const([]))
    most = op.const(0, T.FLOAT) if overlap is None else op.Reshape(overlap, op.const([1]))
    return Field(scores, alive, sides, area, count, numbers, offsets, limit, most)


def _candidates(node: Node, op: Builder) -> tuple[Value, Value, Value]:
    """Returns boxes, scores and a mask of high enough scores; adds a dummy if there may be none."""
    boxes, scores, least = node["boxes"], node["scores"], node.input("score_threshold")
    if least is None:
        good = op.ConstantOfShape(op.Shape(scores), value=np.array([True]))
    else:
        good = scores > op.Reshape(least, op.const([1]))
    dims = scores.dims_or_none
    if dims is not None and isinstance(dims[2], int) and dims[2] > 0:
        return boxes, scores, good
    batches, pairs = part(op, op.Shape(boxes), 0, 1), part(op, op.Shape(scores), 0, 2)
    joined = op.Concat(pairs, op.const([1]), axis=0)
    box = op.ConstantOfShape(op.Concat(batches, op.const([1, 4]), axis=0))
    never = op.ConstantOfShape(joined, value=np.array([False]))
    scores = op.Concat(scores, op.ConstantOfShape(joined), axis=2)
    return op.Concat(boxes, box, axis=1), scores, op.Concat(good, never, axis=2)


def _side(node: Node, op: Builder, first: Value, second: Value) -> tuple[Value, Value]:
    """Returns the lower and the upper end of each box along one axis."""
    if node.int("center_point_box"):
        half = second / op.const(2, T.FLOAT)
        return first - half, first + half
    return op.Min(first, second), op.Max(first, second)


def _round(op: Builder, field: Field, i: Value, alive: Value) -> tuple[Value, ...]:
    """Returns whether to go on, the remaining boxes, the best box, and whether that is selected."""
    masked = op.Where(alive, field.scores, op.const(-np.inf, T.FLOAT))
    best = op.ReduceMax(masked, axes=[2], keepdims=1)
    among = alive & ~(field.scores < best)
    chosen = op.ArgMax(op.Cast(among, to=T.FLOAT), axis=2, keepdims=0)
    there = op.ReduceSum(op.Cast(alive, to=T.FLOAT), axes=[2], keepdims=0)
    valid = op.Cast(there, to=T.BOOL) & (i < field.limit)
    itself = op.Equal(field.numbers, op.Unsqueeze(chosen, axes=[2]))
    removed = itself | _overlapped(op, field, chosen + field.offsets)
    remaining = alive & ~removed
    total = op.ReduceSum(op.Cast(remaining, to=T.FLOAT), keepdims=0)
    more = op.Cast(total, to=T.BOOL) & (i + op.const(1) < field.limit)
    return more, remaining, chosen, valid


def _overlapped(op: Builder, field: Field, place: Value) -> Value:
    """Returns a mask of the boxes that overlap the box at `place` too much, as in onnxruntime."""

    def there(values: Value) -> Value:
        return op.Unsqueeze(op.Gather(op.Reshape(values, op.const([-1])), place, axis=0), axes=[2])

    area, zero, spans, conditions = there(field.area), op.const(0, T.FLOAT), [], []
    for low, high in field.sides:
        start, end = op.Max(low, there(low)), op.Min(high, there(high))
        spans.append(end - start)
        conditions.append(end > start)
    shared = op.Mul(*spans)
    union = field.area + area - shared
    conditions += [size > zero for size in (shared, field.area, area, union)]
    conditions.append(shared / union > field.overlap)
    return functools.reduce(op.And, conditions)
