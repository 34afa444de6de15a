# SPDX-License-Identifier: Apache-2.0
"""DepthToSpace, SpaceToDepth and Col2Im, which move blocks of an image to or from another axis."""

from collections.abc import Sequence

from opshift.adapter import (
    KEEP,
    Array,
    Builder,
    Node,
    Refusal,
    Result,
    T,
    Value,
    Why,
    adapter,
    boundary,
    by_width,
    in_other_words,
    np,
)

from opshift_adapters._lib.blocks import arange, column, count_elements, counted_axis, element, part
from opshift_adapters._lib.exact_integers import sum_last_axis
from opshift_adapters._lib.kinds import FLOATS

ADDED = by_width("Col2Im")  # integers wrap around
DEPTH_28 = boundary(28, "DepthToSpace:164247")
TYPES_13 = boundary(13, "DepthToSpace:a1acc4 SpaceToDepth:66b78b")


def _transposed_channels(op: Builder, x: Value, shape: Sequence[int]) -> Value:
    """Reorders the channels of `x` as if the channel axis had this 2-D shape and was transposed."""
    channels = x.dims_or_none[1] if x.dims_or_none is not None else None
    if isinstance(channels, int):
        order = op.const(np.arange(channels).reshape(shape).T.ravel())
    else:
        every = arange(op, op.Gather(op.Shape(x), op.const(1), axis=0))
        table = op.Transpose(op.Reshape(every, op.const(list(shape))), perm=[1, 0])
        order = op.Reshape(table, op.const([-1]))
    return op.Gather(x, order, axis=1)


SPACE_28_UP = boundary(28, "SpaceToDepth:63a0a0", directions="up")


@adapter("SpaceToDepth", 28, 27)
def space_to_depth_28_27(node: Node, op: Builder) -> Result:
    """Opset 28 added `mode` to SpaceToDepth; below opset 28, a Gather reorders the channels."""
    result = op.same(node, mode=None)
    if node.str("mode") == "DCR":
        return result
    return _transposed_channels(op, result, [node.int("blocksize") ** 2, -1])


DEPTH_11_UP = boundary(11, "DepthToSpace:753dba", directions="up")


@adapter("DepthToSpace", 11, 10)
def depth_to_space_11_10(node: Node, op: Builder) -> Result:
    """Opset 11 added `mode` to DepthToSpace; below opset 11, a Gather reorders the channels."""
    if node.str("mode") == "DCR":
        return op.same(node, mode=None)
    ordered = _transposed_channels(op, node["input"], [-1, node.int("blocksize") ** 2])
    return op.same(node, inputs={"input": ordered}, mode=None)


@adapter("Col2Im", 18, 17, in_other_words=True)
def col2im_18_17(node: Node, op: Builder) -> Result:
    """Below opset 18, Col2Im becomes a Gather of block elements and a sum for each pixel."""
    x, kind = node["input"], node["input"].elem_type
    if kind in (T.BOOL, T.STRING, T.COMPLEX64, T.COMPLEX128):
        raise Refusal(Why.TYPE_NOT_AVAILABLE, "Col2Im of this type is impossible below opset 18")
    image, block = node["image_shape"], node["block_shape"]
    size, span = image.const_or_none(), block.const_or_none()
    if size is not None and span is not None:
        return _known_sources(node, op, size, span)
    sources, total, each = _computed_sources(node, op, image, block)
    elements = op.Reshape(x, _by_channel(op, x, total, each), allowzero=1)
    flat = _covering(op, elements, sources)
    if size is not None:
        return op.Reshape(flat, op.const([0, 0, *size]))
    return op.Reshape(flat, op.Concat(op.const([0, 0]), image, axis=0))


def _known_sources(node: Node, op: Builder, image: Array, block: Array) -> Value:
    """Writes the pixels of an image of known size as sums of elements of the blocks."""
    x = node["input"]
    sources, columns = _sources(node, image, block)
    dims, count = x.dims_or_none, int(block.prod())
    channels = dims[1] if dims is not None else None
    if isinstance(channels, int):
        elements = op.Reshape(x, op.const([0, channels // count, columns]))
    else:
        lines = _by_channel(op, x, op.const(columns), op.const(count))
        elements = op.Reshape(x, lines, allowzero=1)
    sources = sources.reshape(*image, -1)
    if (sources < columns).all() and sources.shape[-1] == 1:
        return op.Gather(elements, op.const(sources[..., 0]), axis=2)
    return _covering(op, elements, op.const(sources))


def _covering(op: Builder, elements: Value, sources: Value) -> Value:
    """Sums the elements of each pixel; an index after the last element refers to an appended 0."""
    padded = op.Pad(elements, op.const([0, 0, 0, 0, 0, 1]))
    covering = op.Gather(padded, sources, axis=2)
    if elements.elem_type in FLOATS:
        # onnxruntime keeps an axis of size 0 if ReduceSum names it by a negative number.
        return op.ReduceSum(covering, op.const([counted_axis(covering, -1)]), keepdims=0)
    return sum_last_axis(op, covering)


def _sources(node: Node, image: Array, block: Array) -> tuple[Array, int]:
    """Returns for each pixel the indices of the elements that it sums, and the number of elements.

    Elements are ordered by their position in the block, then by block. The index after the last
    element stands for a missing element.
    """
    axes = len(image)
    strides = np.array(node.ints_or_none("strides") or [1] * axes)
    dilations = np.array(node.ints_or_none("dilations") or [1] * axes)
    begin, end = np.array(node.ints_or_none("pads") or [0] * (2 * axes)).reshape(2, axes)
    blocks = (image + begin + end - dilations * (block - 1) - 1) // strides + 1
    inside, which = (np.indices(tuple(shape)).reshape(axes, -1) for shape in (block, blocks))
    pixel = (inside * dilations[:, None])[:, :, None] + (which * strides[:, None])[:, None, :]
    pixel = (pixel - begin[:, None, None]).reshape(axes, -1)
    columns = pixel.shape[1]
    (hit,) = np.nonzero(((pixel >= 0) & (pixel < image[:, None])).all(axis=0))
    table = np.full((image.prod(), block.prod()), columns)
    table[np.ravel_multi_index(tuple(pixel[:, hit]), tuple(image)), hit // which.shape[1]] = hit
    table = np.take_along_axis(table, np.argsort(table == columns, axis=1, kind="stable"), axis=1)
    return table[:, : max((table < columns).sum(axis=1).max(), 1)], columns


def _computed_sources(
    node: Node, op: Builder, image: Value, block: Value
) -> tuple[Value, Value, Value]:
    """Returns the table of `_sources` for computed shapes, the element count and the block size."""
    axes = (image if image.shape_or_none is not None else block).shape[0]
    strides, dilations = (node.ints_or_none(n) or [1] * axes for n in ("strides", "dilations"))
    pads = node.ints_or_none("pads") or [0] * (2 * axes)
    zero, one = op.const(0), op.const(1)
    blocks = places = one
    which = inside = zero
    covered = op.const(True, T.BOOL)
    for axis in reversed(range(axes)):
        size, span = element(op, image, axis), element(op, block, axis)
        stride, dilation = op.const(strides[axis]), op.const(dilations[axis])
        begin, end = op.const(pads[axis]), op.const(pads[axis] + pads[axis + axes])
        pixel = column(op, arange(op, size) + begin, 2 * axes, axis)
        place = column(op, arange(op, span), 2 * axes, axes + axis)
        start = pixel - place * dilation
        last = size + end - ((span - one) * dilation + one)
        count = last / stride + one
        number = start / stride
        begins = op.Equal(number * stride, start) & ~(start < zero)
        covered = covered & (begins & (number < count))
        which = which + number * blocks
        inside = inside + place * places
        blocks, places = blocks * count, places * span
    columns = places * blocks
    table = op.Where(covered, inside * blocks + which, columns)
    sizes = [count_elements(op, shape) for shape in (image, block)]
    return op.Reshape(table, op.Concat(*sizes, axis=0)), columns, places


def _by_channel(op: Builder, x: Value, columns: Value, size: Value) -> Value:
    """Returns the shape [batch, channels, elements of all blocks]."""
    shape = op.Shape(x)
    count = part(op, shape, 1, 2) / size
    return op.Concat(part(op, shape, 0, 1), count, op.Reshape(columns, op.const([1])), axis=0)


@in_other_words("DepthToSpace")
def spread_blocks(node: Node, op: Builder) -> Result:
    """DepthToSpace is written as Reshape to blocks, Transpose and Reshape."""
    x, block = node["input"], node.int("blocksize")
    image = _known_image(x)
    if image is None:
        return KEEP
    channels, height, width = image
    deep = op.version < 11 or node.str("mode") == "DCR"
    fewer = channels // block**2
    split = [block, block, fewer] if deep else [fewer, block, block]
    blocks = op.Reshape(x, op.const([-1, *split, height, width]))
    turned = op.Transpose(blocks, perm=[0, 3, 4, 1, 5, 2] if deep else [0, 1, 4, 2, 5, 3])
    return op.Reshape(turned, op.const([-1, fewer, height * block, width * block]))


@in_other_words("SpaceToDepth")
def gathered_blocks(node: Node, op: Builder) -> Result:
    """SpaceToDepth is written as Reshape to blocks, Transpose and Reshape."""
    x, block = node["input"], node.int("blocksize")
    image = _known_image(x)
    if image is None:
        return KEEP
    channels, height, width = image[0], image[1] // block, image[2] // block
    columns = op.version >= 28 and node.str("mode") == "CRD"
    blocks = op.Reshape(x, op.const([-1, channels, height, block, width, block]))
    turned = op.Transpose(blocks, perm=[0, 1, 3, 5, 2, 4] if columns else [0, 3, 5, 1, 2, 4])
    return op.Reshape(turned, op.const([-1, channels * block**2, height, width]))


def _known_image(x: Value) -> tuple[int, int, int] | None:
    """Returns the channels, the height and the width if all are known and not 0, else None."""
    dims = x.dims_or_none
    sizes = [size for size in dims[1:] if isinstance(size, int)] if dims is not None else []
    return (sizes[0], sizes[1], sizes[2]) if len(sizes) == 3 and all(sizes) else None
