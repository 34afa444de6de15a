"""DepthToSpace, SpaceToDepth, Col2Im: blocks of an image and channels."""

from collections.abc import Sequence

import numpy as np
from opshift.adapter import (
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
    example,
)

from opshift_adapters.blocks import ARANGE, FLOATS, arange, part

DEPTH_28 = boundary(28, "DepthToSpace:164247")
TYPES_13 = boundary(13, "DepthToSpace:a1acc4 SpaceToDepth:66b78b")

# -- order of channels ---------------------------------------------------------------------------

REORDER = ("Gather", "Shape", "Reshape", "Transpose", *ARANGE)


def _transposed_channels(op: Builder, x: Value, shape: Sequence[int]) -> Value:
    """The channels of an image laid out in two axes, which change places."""
    channels = x.dims_or_none[1] if x.dims_or_none is not None else None
    if isinstance(channels, int):
        order = op.const(np.arange(channels).reshape(shape).T.reshape(-1))
    else:
        every = arange(op, op.Gather(op.Shape(x), op.const(1), axis=0))
        table = op.Transpose(op.Reshape(every, op.const(list(shape))), perm=[1, 0])
        order = op.Reshape(table, op.const([-1]))
    return op.Gather(x, order, axis=1)


IMAGE = "(float[2,3,4,6] x) => (float[2,12,2,3] y) "
SPACE_28_UP = boundary(28, "SpaceToDepth:63a0a0", directions="up")


@adapter("SpaceToDepth", 28, 27, emits=REORDER)
@example("default", IMAGE + "{ y = SpaceToDepth<blocksize=2>(x) }", gives="SpaceToDepth")
@example("depth first", IMAGE + '{ y = SpaceToDepth<blocksize=2,mode="DCR">(x) }', gives="SpaceToDepth")
@example("columns first", IMAGE + '{ y = SpaceToDepth<blocksize=2,mode="CRD">(x) }', gives="SpaceToDepth Gather")
@example("unknown sizes", '(int8[N,C,4,6] x) => (int8[N,c,2,3] y) { y = SpaceToDepth<blocksize=2,mode="CRD">(x) }')
@example("empty", '(float[0,3,4,6] x) => (float[0,12,2,3] y) { y = SpaceToDepth<blocksize=2,mode="CRD">(x) }')
def space_to_depth_28_27(node: Node, op: Builder) -> Result:
    """The channel was always the fastest; the other order is a permutation of the channels."""
    result = op.same(node, mode=None)
    if node.str("mode") == "DCR":
        return result
    return _transposed_channels(op, result, [node.int("blocksize") ** 2, -1])


DEPTH = "(float[2,12,2,3] x) => (float[2,3,4,6] y) "
DEPTH_11_UP = boundary(11, "DepthToSpace:753dba", directions="up")


@adapter("DepthToSpace", 11, 10, emits=REORDER)
@example("default", DEPTH + "{ y = DepthToSpace<blocksize=2>(x) }", gives="DepthToSpace")
@example("depth first", DEPTH + '{ y = DepthToSpace<blocksize=2,mode="DCR">(x) }', gives="DepthToSpace")
@example("columns first", DEPTH + '{ y = DepthToSpace<blocksize=2,mode="CRD">(x) }', gives="Gather DepthToSpace")
@example("unknown sizes", '(string[N,C,2,3] x) => (string[N,c,4,6] y) { y = DepthToSpace<blocksize=2,mode="CRD">(x) }', inputs={"x": np.arange(48).astype(str).reshape(1, 8, 2, 3)})
@example("empty", '(float[0,12,2,3] x) => (float[0,3,4,6] y) { y = DepthToSpace<blocksize=2,mode="CRD">(x) }')
def depth_to_space_11_10(node: Node, op: Builder) -> Result:
    """The channel was always the fastest; the other order is a permutation of the channels."""
    if node.str("mode") == "DCR":
        return op.same(node, mode=None)
    ordered = _transposed_channels(op, node["input"], [-1, node.int("blocksize") ** 2])
    return op.same(node, inputs={"input": ordered}, mode=None)


# -- Col2Im --------------------------------------------------------------------------------------

TWO = "<int64[2] image = {5,5}, int64[2] block = {1,5}> "
OVERLAP = "<int64[2] image = {4,5}, int64[2] block = {2,3}> "
SUMMED = (*FLOATS, T.INT32, T.INT64, T.UINT32, T.UINT64)


@adapter("Col2Im", 18, 17, emits=("Reshape", "Shape", "Slice", "Div", "Concat", "Pad", "Gather", "ReduceSum", "Cast"))
@example("side by side", "(float[1,5,5] x) => (float[1,1,5,5] y) " + TWO + "{ y = Col2Im(x, image, block) }")
@example("overlapping", "(float[2,18,9] x) => (float[2,3,4,5] y) " + OVERLAP + "{ y = Col2Im(x, image, block) }")
@example("strides and pads", "(double[1,6,6] x) => (double[1,1,4,5] y) " + OVERLAP + "{ y = Col2Im<strides=[2,2],pads=[0,1,1,1]>(x, image, block) }")
@example("dilations", "(float[1,12,3] x) => (float[1,2,4,5] y) " + OVERLAP + "{ y = Col2Im<dilations=[1,2]>(x, image, block) }")
@example("infinite", "(float[1,6,9] x) => (float[1,1,4,5] y) " + OVERLAP + "{ y = Col2Im(x, image, block) }", inputs={"x": [[[np.inf] * 9] + [[1] * 9] * 5]})
@example("integers", "(int64[N,C,9] x) => (int64[N,c,4,5] y) " + OVERLAP + "{ y = Col2Im(x, image, block) }", inputs={"x": np.arange(108).reshape(1, 12, 9)})
@example("small integers", "(int8[1,6,9] x) => (int8[1,1,4,5] y) " + OVERLAP + "{ y = Col2Im(x, image, block) }")
@example("three axes", "(float[1,8,8] x) => (float[1,1,3,3,3] y) <int64[3] image = {3,3,3}, int64[3] block = {2,2,2}> { y = Col2Im(x, image, block) }")
@example("bool", "(bool[1,6,9] x) => (bool[1,1,4,5] y) " + OVERLAP + "{ y = Col2Im(x, image, block) }", refuses=Why.TYPE_NOT_AVAILABLE)
@example("computed image", "(float[1,5,5] x, int64[2] image) => (float[1,1,h,w] y) <int64[2] block = {1,5}> { y = Col2Im(x, image, block) }", refuses=Why.NEEDS_CONSTANT, inputs={"image": [5, 5]})
def col2im_18_17(node: Node, op: Builder) -> Result:
    """Born in 18; below it every pixel gathers the elements of the blocks that cover it."""
    x, kind = node["input"], node["input"].elem_type
    if kind in (T.BOOL, T.STRING, T.COMPLEX64, T.COMPLEX128):
        raise Refusal(Why.TYPE_NOT_AVAILABLE, "only real numbers can be summed there")
    image, block = node["image_shape"].const(), node["block_shape"].const()
    sources, columns = _sources(node, image, block)
    elements = op.Reshape(x, _by_channel(op, x, block.prod(), columns), allowzero=1)
    elements = op.Pad(elements, op.const([0, 0, 0, 0, 0, 1]))
    if kind not in SUMMED:
        elements = op.Cast(elements, to=T.INT32)
    covering = op.Gather(elements, op.const(sources), axis=2)
    flat = op.ReduceSum(covering, op.const([3]), keepdims=0)
    if kind not in SUMMED:
        flat = op.Cast(flat, to=kind)
    return op.Reshape(flat, op.const([0, 0, *image]))


def _sources(node: Node, image: Array, block: Array) -> tuple[Array, int]:
    """For each pixel the elements of a channel that make it, and how many elements there are.

    An element is counted by its place in the block, then by the block; one more stands for none.
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


def _by_channel(op: Builder, x: Value, size: int, columns: int) -> Value:
    """The shape in which each channel has all elements of its blocks in a row."""
    known = x.dims_or_none
    if known is not None and isinstance(known[0], int) and isinstance(known[1], int):
        return op.const([known[0], known[1] // int(size), columns])
    shape = op.Shape(x)
    channels = op.Div(part(op, shape, 1, 2), op.const([int(size)]))
    return op.Concat(part(op, shape, 0, 1), channels, op.const([columns]), axis=0)
