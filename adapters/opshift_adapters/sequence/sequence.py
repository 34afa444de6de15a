# SPDX-License-Identifier: Apache-2.0
"""Sequences, which opset 11 added; below opset 11, known elements are used as tensors."""

from dataclasses import dataclass

from opshift.adapter import (
    Builder,
    InvalidModel,
    Node,
    Refusal,
    Result,
    T,
    Value,
    Why,
    adapter,
    boundary,
    flaw,
    np,
)

from opshift_adapters._lib.blocks import count_from_front, part, shape_of, size_of
from opshift_adapters._lib.makers import maker

GONE = "sequence values do not exist before opset 11"


@dataclass(frozen=True, slots=True)
class Piece:
    """An element of a sequence: the part of a tensor from `start` to `end` along an axis."""

    whole: Value
    axis: int
    start: int
    end: int
    squeezed: bool


Element = Value | Piece


def elements(sequence: Value) -> list[Element]:
    """Returns the elements of a sequence that nodes build; refuses another sequence."""
    node = sequence.producer
    if node is None:
        raise _unknown(sequence)
    match node.op:
        case "SequenceConstruct":
            return [value for value in node.inputs if value is not None]
        case "SequenceEmpty":
            return []
        case "SequenceInsert":
            items = elements(node["input_sequence"])
            items.insert(_position(node, items, len(items)), node["tensor"])
            return items
        case "SequenceErase":
            items = elements(node["input_sequence"])
            del items[_position(node, items, len(items) - 1)]
            return items
        case "SplitToSequence":
            return pieces(node)
    raise _unknown(sequence)


def _unknown(sequence: Value) -> Refusal:
    return Refusal(Why.NEEDS_CONSTANT, f"{GONE}, and the elements of {sequence.name!r} are unknown")


def _position(node: Node, items: list[Element], last: int) -> int:
    """Returns the constant input `position` of a sequence operator; its default is `last`."""
    given = node.input("position")
    position = last if given is None else int(given.const().flat[0])
    if not -len(items) <= position <= last:
        raise Refusal(Why.AMBIGUOUS, f"a sequence of size {len(items)} has no position {position}")
    return position


@flaw("SplitToSequence")
def no_parts(node: Node) -> str | None:
    """SplitToSequence must not have an empty list of lengths or an empty name as `split`."""
    split = node.input("split")
    if split is None and len(node.inputs) > 1:
        return "split is an empty name, which onnx's inference reads as an input; remove the name"
    return "split is an empty list" if split is not None and split.shape_or_none == (0,) else None


def pieces(node: Node) -> list[Element]:
    """Returns the parts into which SplitToSequence divides its input."""
    whole, split, axis = node["input"], node.input("split"), split_axis(node)
    constant = np.array(1) if split is None else split.const()
    if constant.ndim:
        if told := no_parts.find_objection(node):
            raise InvalidModel(f"SplitToSequence {node.name!r}: {told}")
        ends = np.cumsum(constant).tolist()
    else:
        size = whole.dims[axis]
        if not isinstance(size, int):
            raise Refusal(Why.NEEDS_SHAPE, f"{GONE}, and the size of {whole.name!r} is unknown")
        ends = [min(end, size) for end in range(int(constant), size + int(constant), int(constant))]
    squeezed = split is None and node.int("keepdims") == 0
    starts = [0, *ends][: len(ends)]
    return [Piece(whole, axis, *bounds, squeezed) for bounds in zip(starts, ends, strict=True)]


def split_axis(node: Node) -> int:
    axis = node.int("axis")
    return axis + node["input"].rank if axis < 0 else axis


def taken(op: Builder, element: Element) -> Value:
    """Returns an element of a sequence as a tensor, by Slice and Squeeze if needed."""
    if isinstance(element, Value):
        return element
    axis, start, end = element.axis, element.start, element.end
    cut = op.Slice(element.whole, op.const([start]), op.const([end]), op.const([axis]))
    return op.Squeeze(cut, axes=[axis]) if element.squeezed else cut


def split_one_by_one(sequence: Value) -> Node | None:
    """Returns the SplitToSequence without `split`, which makes one element per index, or None."""
    node = maker(sequence, "SplitToSequence")
    return node if node is not None and node.input("split") is None else None


@adapter("SequenceAt", 11, 10)
def sequence_at_11_10(node: Node, op: Builder) -> Result:
    """Below opset 11, SequenceAt becomes the tensor at the position, or a Gather from tensors."""
    sequence, position = node["input_sequence"], node["position"]
    split = split_one_by_one(sequence)
    if split is not None:
        return _row(op, split, position)
    items = elements(sequence)
    dims = [_dims(item) for item in items]
    known = position.const_or_none()
    if known is None and (not items or None in (dims[0] or [None]) or dims != dims[:1] * len(dims)):
        known = position.const()
    if known is not None:
        return taken(op, items[_position(node, items, len(items) - 1)])
    stacked = [op.Unsqueeze(taken(op, item), axes=[0]) for item in items]
    index = wrapped(op, position, op.const(len(items)))
    return op.Gather(op.Concat(*stacked, axis=0), index, axis=0)


def _dims(element: Element) -> tuple[int | str | None, ...] | None:
    if isinstance(element, Value):
        return element.dims_or_none
    if element.whole.dims_or_none is None:
        return None
    dims = list(element.whole.dims)
    dims[element.axis : element.axis + 1] = (
        [] if element.squeezed else [element.end - element.start]
    )
    return tuple(dims)


def wrapped(op: Builder, position: Value, size: Value) -> Value:
    """Returns a position counted from the start, as an int64 scalar."""
    constant = position.const_or_none()
    if constant is not None and constant.flat[0] >= 0:
        return op.const(int(constant.flat[0]))
    index = op.Reshape(op.Cast(position, to=T.INT64), op.const([]))
    return count_from_front(op, index, op.Reshape(size, op.const([])))


def _row(op: Builder, split: Node, position: Value) -> Value:
    """Writes the element of the sequence, a Gather from the tensor that was split."""
    x, axis = split["input"], split_axis(split)
    index = wrapped(op, position, size_of(op, x, axis))
    if split.int("keepdims"):
        index = op.Reshape(index, op.const([1]))
    return op.Gather(x, index, axis=axis)


@adapter("SequenceLength", 11, 10)
def sequence_length_11_10(node: Node, op: Builder) -> Result:
    """Below opset 11, SequenceLength becomes the known number of elements."""
    split = split_one_by_one(node["input_sequence"])
    if split is not None:
        return size_of(op, split["input"], split_axis(split))
    return op.const(len(elements(node["input_sequence"])))


@adapter("ConcatFromSequence", 11, 10)
def concat_from_sequence_11_10(node: Node, op: Builder) -> Result:
    """Below opset 11, ConcatFromSequence becomes a Concat of the known elements."""
    sequence, axis, new = node["input_sequence"], node.int("axis"), node.int("new_axis") == 1
    split = split_one_by_one(sequence)
    if split is not None:
        return _rejoined(op, split, axis, new)
    values = [taken(op, item) for item in elements(sequence)]
    if not values:
        raise Refusal(Why.AMBIGUOUS, "ConcatFromSequence of an empty sequence is not defined")
    if len({value.rank_or_none for value in values} - {None}) > 1:
        raise InvalidModel(f"{node.op} {node.name!r} concatenates tensors of different ranks")
    if axis < 0:
        axis += values[0].rank + new
    if new:
        values = [op.Unsqueeze(value, axes=[axis]) for value in values]
    return op.Concat(*values, axis=axis)


def _rejoined(op: Builder, split: Node, axis: int, new: bool) -> Value:
    """Joins the elements of a split tensor: moves the split axis, or merges it with another."""
    x, kept, cut = split["input"], split.int("keepdims") == 1, split_axis(split)
    rank = x.rank - 1 + kept + new
    if not -rank <= axis < rank:
        raise InvalidModel(f"ConcatFromSequence has axis {axis}, but only {rank} axes")
    axis %= rank
    if axis == cut and kept != new:
        return x
    rows = op.Unsqueeze(x, axes=[cut + 1]) if kept else x
    order = [a for a in range(rows.rank) if a != cut]
    order.insert(axis, cut)
    moved = rows if order == sorted(order) else op.Transpose(rows, perm=order)
    return moved if new else _merged(op, moved, axis)


def _merged(op: Builder, x: Value, axis: int) -> Value:
    """Merges axis `axis` of `x` and the next axis into one axis."""
    shape = shape_of(op, x)
    product = size_of(op, x, axis) * size_of(op, x, axis + 1)
    middle = op.Reshape(product, op.const([1]))
    sizes = (part(op, shape, 0, axis), middle, part(op, shape, axis + 2))
    return op.Reshape(x, op.Concat(*sizes, axis=0), allowzero=1)


@adapter("SequenceConstruct SequenceEmpty SequenceInsert SequenceErase SplitToSequence", 11, 10)
def sequence_11_10(node: Node, op: Builder) -> Result:
    """Below opset 11, a node that makes a sequence is removed after all nodes that read it."""
    return op.dissolve(GONE)


MAX_UNROLLED = 64


@adapter("SequenceMap", 17, 16)
def sequence_map_17_16(node: Node, op: Builder) -> Result:
    """Below opset 17, SequenceMap is written as a Loop, or as nodes for each known element."""
    first, *others = (value for value in node.inputs if value is not None)
    body, kinds = node.graph("body"), [value.elem_type for value in node.results("body")]
    given = [(value, _is_sequence(value)) for value in (first, *others)]

    def mapped(b: Builder, at: Value) -> tuple[Value, ...]:
        return b.inline(body, *(b.SequenceAt(v, at) if many else v for v, many in given))

    count = _count(first)
    if count is not None:
        rows = [mapped(op, op.const(i)) for i in range(count)]
        return tuple(op.SequenceConstruct(*column) for column in zip(*rows, strict=True))

    def step(b: Builder, i: Value, keep: Value, *done: Value) -> tuple[Value, ...]:
        grown = zip(done, mapped(b, i), strict=True)
        return (b.Identity(keep), *(b.SequenceInsert(old, new) for old, new in grown))

    empty = [op.SequenceEmpty(dtype=kind) for kind in kinds]
    repeated = op.graph(step, (T.INT64, ()), (T.BOOL, ()), *empty)
    return op.Loop(
        op.SequenceLength(first), op.const(True, T.BOOL), *empty, body=repeated, outputs=len(kinds)
    )


def _count(sequence: Value) -> int | None:
    """Returns the number of elements if it is known, not 0 and not large, else None."""
    try:
        count = len(elements(sequence))
    except Refusal:
        return None
    return count if 0 < count <= MAX_UNROLLED else None


def _is_sequence(value: Value) -> bool:
    if value.type is None:
        raise Refusal(Why.NEEDS_TYPE, f"it is unknown whether {value.name!r} is a sequence")
    return value.type.HasField("sequence_type")


SPLIT_24 = boundary(24, "SplitToSequence:d92688")
