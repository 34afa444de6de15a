# SPDX-License-Identifier: Apache-2.0
"""Concat, Split and Tile, which join, divide and repeat tensors."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from opshift.adapter import (
    KEEP,
    Builder,
    InvalidModel,
    Node,
    Refusal,
    Result,
    Surroundings,
    T,
    Value,
    Why,
    adapter,
    alternative,
    boundary,
    illegal,
    in_other_words,
    misread,
    np,
)
from opshift.combinators import positive_axis
from opshift.objections import LARGEST_RANK

from opshift_adapters._lib.blocks import arange, extent, part
from opshift_adapters._lib.kinds import FLOATS
from opshift_adapters._lib.moved import moved

CONCAT_13 = boundary(13, "Concat:961c13 Tile:2ac827")
AXIS_11 = boundary(11, "Concat:bcd325 Split:282133", down=positive_axis())


@adapter("Concat", 4, 3, handles_types=True)
def concat_4_3(node: Node, op: Builder) -> Result:
    """Below opset 4, Concat accepts only floats; other types are cast to floats and back."""
    values = [value for value in node.inputs if value is not None]
    if any(value.elem_type_or_none in FLOATS for value in values):
        return KEEP
    return moved(op, values, lambda floats, _: op.same_but(node, floats)[0])


@adapter("Concat", 3, 4)
def concat_3_4(node: Node, op: Builder) -> Result:
    """Opset 4 requires `axis` of Concat; the old default 1 is written."""
    return KEEP if node.has("axis") else op.same(node, axis=1)


@adapter("Split", 17, 18)
def split_17_18(node: Node, op: Builder) -> Result:
    """Opset 18 requires `num_outputs` or the input `split` of Split; one of them is written."""
    if node.input("split") is not None:
        return KEEP
    x, axis, count = node["input"], node.int("axis"), len(node.outputs)
    dims = x.dims_or_none
    size = dims[axis] if dims is not None else None
    if isinstance(size, int) and size:
        return op.same(node, outputs=count, num_outputs=count)
    # Releases of onnxruntime split an empty tensor by lengths, but not by a number of outputs.
    if count == 1:
        return op.Identity(x)
    if isinstance(size, int):
        lengths = op.const([0] * count)
    else:
        unranked = x.rank_or_none is None
        whole = (
            op.Gather(op.Shape(x), op.const([axis]), axis=0) if unranked else extent(op, x, axis)
        )
        lengths = op.Expand(whole / op.const([count]), op.const([count]))
    return op.same(node, inputs={"split": lengths}, outputs=count)


@adapter("Split", 18, 17, ignores={"num_outputs": "`num_outputs` is the number of outputs"})
def split_18_17(node: Node, op: Builder) -> Result:
    """Below opset 18, Split without `split` needs equal parts; other lengths become `split`."""
    x, axis, count = node["input"], node.int("axis"), len(node.outputs)
    if node.input("split") is not None or count == 1:
        return op.same(node, outputs=count, num_outputs=None)
    dims = x.dims_or_none
    size = dims[axis] if dims is not None else None
    if not isinstance(size, int):
        lengths = _lengths(op, x, axis, count)
    elif size % count == 0:
        return op.same(node, outputs=count, num_outputs=None)
    else:
        chunk = -(-size // count)
        rest = size - chunk * (count - 1)
        if rest < 0:
            raise Refusal(
                Why.NOT_EXPRESSIBLE, f"Split cannot divide {size} elements into {count} equal parts"
            )
        lengths = op.const([chunk] * (count - 1) + [rest])
    return op.same(node, inputs={"split": lengths}, outputs=count, num_outputs=None)


def _lengths(op: Builder, x: Value, axis: int, count: int) -> Value:
    """Returns the lengths of the parts: rounded up, and the remainder for the last part."""
    size = op.Gather(op.Shape(x), op.const([axis]), axis=0)
    chunk = (size + op.const([count - 1])) / op.const([count])
    last = size - chunk * op.const([count - 1])
    return op.Concat(*[chunk] * (count - 1), last, axis=0)


@adapter("Split", 12, 13)
def split_12_13(node: Node, op: Builder) -> Result:
    """Opset 13 made `split` an input of Split; it was an attribute."""
    lengths = node.ints_or_none("split")
    count = len(node.outputs)
    if not lengths:
        return op.same(node, outputs=count, split=None)
    return op.same(node, inputs={"split": op.const(lengths)}, outputs=count, split=None)


@adapter("Split", 13, 12)
def split_13_12(node: Node, op: Builder) -> Result:
    """Below opset 13, `split` of Split is an attribute; computed lengths become Slice nodes."""
    x, lengths, count = node["input"], node.input("split"), len(node.outputs)
    if lengths is None:
        return op.same(node, outputs=count)
    constant = lengths.const_or_none()
    if constant is not None:
        return op.same(node, inputs={"split": None}, outputs=count, split=constant.tolist())
    axes = op.const([node.int("axis")])
    pieces, start = [], op.const([0])
    for i in range(count):
        length = part(op, lengths, i, i + 1)
        end = start + length if i else length
        pieces.append(op.Slice(x, start, end, axes))
        start = end
    return tuple(pieces)


@adapter("Split", 2, 1, handles_types=True)
def split_2_1(node: Node, op: Builder) -> Result:
    """Below opset 2, Split needs `axis` and accepts only floats; Slice splits other types."""
    x, axis, lengths = node["input"], node.int("axis"), node.ints_or_none("split")
    count = len(node.outputs)
    if x.elem_type in FLOATS:
        return op.same(node, outputs=count, axis=axis)
    if not lengths:
        size = x.dims[axis]
        if not isinstance(size, int):
            raise Refusal(Why.NEEDS_SHAPE, f"the size of {x.name!r} along axis {axis} is unknown")
        lengths = [size // count] * count
    if len(lengths) != count:
        raise InvalidModel(f"Split {node.name!r} has {len(lengths)} lengths for {count} outputs")
    bounds = np.cumsum([0, *lengths]).tolist()
    return tuple(
        op.Slice(x, starts=[start], ends=[end], axes=[axis])
        for start, end in itertools.pairwise(bounds)
    )


@adapter("Split", 1, 2)
def split_1_2(node: Node, op: Builder) -> Result:
    """Opset 2 removed the input `split` of Split; its constant value becomes the attribute."""
    lengths, axis, split = node.input("split"), node.attr("axis"), node.ints_or_none("split")
    if axis is None:
        if node["input"].rank != 1:
            raise Refusal(Why.AMBIGUOUS, "Split without axis is not defined before opset 2")
        axis = 0
    if lengths is not None:
        split = [int(length) for length in lengths.const()]
    return op.same(
        node, inputs={"split": None}, outputs=len(node.outputs), axis=axis, split=split or None
    )


UNHELD = (T.INT64, T.UINT64, T.STRING, T.COMPLEX64, T.COMPLEX128)  # which no float type holds
MOST_COPIES = 256  # the largest number of inputs of a written Concat


@adapter("Tile", 5, 6, handles_types=True)
def tile_5_6(node: Node, op: Builder) -> Result:
    """Opset 6 replaced `tiles` and `axis` of Tile by `repeats`, which has a count for each axis."""
    x, tiles, axis = node["input"], node["tiles"], node["axis"]
    count, place, rank = tiles.const_or_none(), axis.const_or_none(), x.rank_or_none
    if count is not None and place is not None and rank is not None:
        repeats = np.ones(rank, dtype=np.int64)
        repeats[int(place.item())] = int(count.item())
        return op.Tile(x, op.const(repeats))
    times = op.Cast(op.Reshape(tiles, op.const([1])), to=T.INT64)
    if rank is not None and place is None:
        return op.Tile(x, _at(op, times, axis, op.const(np.arange(rank))))
    shape = op.Shape(x)
    if place is None:
        length = op.Reshape(op.Shape(shape), op.const([]))
        return op.Tile(x, _at(op, times, axis, arange(op, length)))
    ones, at = op.Cast(op.Equal(shape, shape), to=T.INT64), int(place.item())
    return op.Tile(x, op.Concat(part(op, ones, 0, at), times, part(op, ones, at + 1), axis=0))


def _at(op: Builder, times: Value, axis: Value, places: Value) -> Value:
    """Returns the repeats of all axes, which are `times` at the index `axis` and else 1."""
    axis = op.Cast(op.Reshape(axis, op.const([1])), to=T.INT64)
    there = op.Cast(op.Equal(places, axis, broadcast=1), to=T.INT64)
    more = times - op.const([1])
    return op.Add(op.Mul(there, more, broadcast=1), op.const([1]), broadcast=1)


@adapter("Tile", 6, 5, handles_types=True)
def tile_6_5(node: Node, op: Builder) -> Result:
    """Below opset 6, Tile repeats one axis of floats; each axis gets its own Tile or Concat."""
    x, repeats = node["input"], node["repeats"]
    constant = repeats.const_or_none()
    if constant is not None and x.elem_type in UNHELD and constant.max(initial=0) <= MOST_COPIES:
        return _side_by_side(op, x, constant.tolist())
    if constant is not None and not (constant != 1).any():
        return op.Identity(x)
    each = constant.tolist() if constant is not None else _counts(op, repeats, _rank(x, repeats))
    if x.elem_type == T.FLOAT16:  # float16 cannot represent large counts
        return op.Cast(_one_by_one(op, op.Cast(x, to=T.FLOAT), each, T.FLOAT), to=T.FLOAT16)
    return moved(op, [x], lambda floats, kind: _one_by_one(op, floats[0], each, kind))


def _rank(x: Value, repeats: Value) -> int:
    counts = repeats.shape_or_none
    if counts is not None and counts[0] > LARGEST_RANK:
        raise InvalidModel(f"{repeats.name!r} has repeats for {counts[0]} axes")
    return x.rank if counts is None else counts[0]


def _counts(op: Builder, repeats: Value, rank: int) -> list[Value]:
    return [op.Squeeze(part(op, repeats, axis, axis + 1), axes=[0]) for axis in range(rank)]


def _one_by_one(op: Builder, x: Value, repeats: Sequence[int | Value], kind: int) -> Value:
    """Writes one Tile for each axis that is repeated."""
    for axis, times in enumerate(repeats):
        if isinstance(times, Value):
            x = op.Tile(x, op.Cast(times, to=kind), op.const(axis, kind))
        elif times != 1:
            x = op.Tile(x, op.const(times, kind), op.const(axis, kind))
    return x


def _side_by_side(op: Builder, x: Value, repeats: Sequence[int]) -> Value:
    """Writes Tile as Concat and Slice, which accept every element type."""
    tiled = x
    for axis, times in enumerate(repeats):
        if times == 0:
            tiled = op.Slice(tiled, starts=[0], ends=[0], axes=[axis])
        elif times > 1:
            tiled = op.Concat(*[tiled] * times, axis=axis)
    return op.Identity(x) if tiled is x else tiled


@illegal("Split")
def parts(attributes: Mapping[str, Any], inputs: int, outputs: int) -> str | None:
    """`num_outputs` of Split must be the number of outputs, or onnx's inference crashes."""
    num_outputs = attributes.get("num_outputs", outputs)
    return None if num_outputs == outputs else f"num_outputs is {num_outputs} instead of {outputs}"


@misread("Concat", "onnxruntime 1.9..1.14", source="2026-11-30 1.7..1.15: 2 forms, a llama")
def joins_real_numbers_twice(node: Node, around: Surroundings) -> bool:
    """Concat of one input twice, between DequantizeLinear and QuantizeLinear, does not load."""
    parts, result = [x for x in node.inputs if x is not None], node.outputs[0]
    is_quantized = result and [by.op for by in around.readers(result)] == ["QuantizeLinear"]
    makers = {x.producer.op for x in parts if x.producer is not None}
    is_real = makers == {"DequantizeLinear"}
    return bool(is_quantized) and is_real and len({x.name for x in parts}) < len(parts)


@alternative("Concat", runtime="onnxruntime==1.10")
def copies(node: Node, op: Builder) -> Result:
    """Concat of one input several times is written as Tile."""
    x, names = node.inputs[0], {part.name for part in node.inputs if part is not None}
    if x is None or x.rank_or_none is None or len(names) > 1:
        return KEEP
    repeats = np.ones(x.rank, np.int64)
    repeats[node.int("axis")] = len(node.inputs)
    return op.Tile(x, op.const(repeats))


@misread("Split", "opencv 4.5.5", source="2026-11-29 4.5.5: Split of initializers and inputs")
def splits_a_constant(node: Node) -> bool:
    """Split of a constant is not supported."""
    return node["input"].const_or_none() is not None


@alternative("Split", runtime="opencv==4.5.5")
def parts_as_constants(node: Node, op: Builder) -> Result:
    """OpenCV 4.5.5 cannot split a constant, so each part is written as a constant."""
    x, axis = node["input"], node.int("axis")
    constant = x.const_or_none() if 2 <= op.version < 13 else None
    if constant is None or not constant.shape[axis]:
        return KEEP
    lengths = node.ints_or_none("split")
    each = -(-constant.shape[axis] // node.n_outputs)
    ends = list(itertools.accumulate(lengths or [each] * node.n_outputs))[:-1]
    return tuple(op.const(piece, like=x) for piece in np.split(constant, ends, axis))


@in_other_words("Split")
def slices(node: Node, op: Builder) -> Result:
    """Split is written as one Slice for each part, if the lengths of the parts are known."""
    x, axis = node["input"], node.int("axis")
    lengths = node.input("split") if op.version >= 13 else None
    size, named = x.dims[axis], "num_outputs" in node.attributes
    count = node.int("num_outputs") if named else node.n_outputs
    if lengths is not None:
        parts = [int(length) for length in lengths.const()]
    elif op.version < 13 and node.has("split"):
        parts = node.ints("split")
    elif isinstance(size, int):
        each = -(-size // count)
        parts = [max(0, min(each, size - each * at)) for at in range(count)]
    else:
        return KEEP
    ends = [sum(parts[: at + 1]) for at in range(count)]
    pairs = zip([0, *ends], ends, strict=False)
    along = op.const([axis])
    return tuple(op.Slice(x, op.const([start]), op.const([end]), along) for start, end in pairs)


@in_other_words("Tile")
def joined_copies(node: Node, op: Builder) -> Result:
    """Tile is written as one Concat of copies for each axis, if the number of copies is known."""
    x, repeats = node["input"], node["repeats"].const_or_none()
    if repeats is None or not all(1 <= one <= MOST_COPIES for one in repeats):
        return KEEP
    several = [axis for axis, count in enumerate(repeats) if count > 1]
    for axis in several or [0] if len(repeats) else []:
        x = op.Concat(*[x] * int(repeats[axis]), axis=axis)
    return x if len(repeats) else KEEP
