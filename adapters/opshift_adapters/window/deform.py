# SPDX-License-Identifier: Apache-2.0
"""DeformConv, which becomes four Gathers around each sample, and MatMul, below opset 19."""

from opshift.adapter import Builder, Node, Refusal, Result, T, Value, Why, adapter, boundary, np
from opshift.combinators import cast_around

from opshift_adapters._lib.blocks import arange, count_elements, part, shape_of, size_of
from opshift_adapters._lib.kinds import as_type

BFLOAT16_22 = boundary(22, "DeformConv:3b4cba", cast=cast_around("float"))


@adapter("DeformConv", 19, 18, ignores={"kernel_shape": "`kernel_shape` repeats W's shape"})
def deform_conv_19_18(node: Node, op: Builder) -> Result:
    """Below opset 19, DeformConv is written as interpolated samples times the weights."""
    kind = node["X"].elem_type
    wide = T.FLOAT if kind == T.FLOAT16 else kind
    outputs, inner, *kernel = node["W"].shape
    if len(kernel) != 2:
        raise Refusal(Why.NOT_EXPRESSIBLE, "DeformConv needs opset 19 unless it has 2 spatial axes")
    sizes = op.Concat(op.const([0, outputs]), part(op, op.Shape(node["offset"]), 2), axis=0)
    x, w, offset = (as_type(op, node[name], wide) for name in ("X", "W", "offset"))
    if (node["X"].dims_or_none or ())[:1] == (0,):
        node.carried()  # the result has the spatial sizes of the offsets
        return op.Expand(op.const([0], kind), sizes)
    group, shifted = node.int("group"), node.int("offset_group")
    each = inner * group // shifted
    taps, plane = kernel[0] * kernel[1], _plane(op, offset)
    data = _grouped(op, x, [0, shifted, each], _plane(op, x))
    samples = sampled(op, data, _places(node, op, offset, kernel), x, each)
    if (mask := node.input("mask")) is not None:
        samples = samples * _grouped(op, as_type(op, mask, wide), [0, shifted, 1], plane, taps)
    columns = _grouped(op, samples, [0, group, inner * taps], plane)
    product = op.MatMul(op.Reshape(w, op.const([group, outputs // group, -1])), columns)
    y = op.Reshape(product, sizes)
    if (bias := node.input("B")) is not None:
        y = y + op.Reshape(as_type(op, bias, wide), op.const([1, -1, 1, 1]))
    return op.Cast(y, to=kind) if kind == T.FLOAT16 else y


def _places(node: Node, op: Builder, offset: Value, kernel: list[int]) -> Value:
    """Returns row and column of each sample: [2, N, offset groups, 1, kernel size * outputs]."""
    dilations = node.ints_or_none("dilations") or [1, 1]
    groups, taps = node.int("offset_group"), kernel[0] * kernel[1]
    lattice = np.stack(np.meshgrid(*(np.arange(k) for k in kernel), indexing="ij"), axis=-1)
    spread = lattice.reshape(taps, 2, 1) * np.reshape(dilations, (2, 1))
    fixed = op.Cast(_corners(node, op, offset) + op.const(spread), to=offset.elem_type)
    plane = _plane(op, offset)
    moved = _grouped(op, offset, [0, groups, taps, 2], plane) + fixed
    front = op.Transpose(moved, perm=[3, 0, 1, 2, 4])
    return _grouped(op, front, [2, 0, groups, 1], plane, taps)


def _plane(op: Builder, x: Value) -> Value:
    """Returns the size of an image plane for Reshape: -1 (inferred) if the batch size is known."""
    dims = x.dims_or_none
    if dims is not None and isinstance(dims[0], int):
        return op.const([-1])
    return count_elements(op, part(op, shape_of(op, x), 2))


def _grouped(op: Builder, x: Value, front: list[int], plane: Value, taps: int = 1) -> Value:
    """Reshapes `x` to the sizes `front`, followed by an axis with `taps` image planes."""
    known = plane.const_or_none()
    many = plane if taps == 1 or (known is not None and known < 0) else plane * op.const([taps])
    return op.Reshape(x, op.Concat(op.const(front), many, axis=0))


def _corners(node: Node, op: Builder, offset: Value) -> Value:
    """Returns row and column of the window of each output element: [2, outputs]."""
    strides = node.ints_or_none("strides") or [1, 1]
    pads = node.ints_or_none("pads") or [0, 0]
    height, width = (size_of(op, offset, axis) for axis in (2, 3))
    sizes = [v.const_or_none() for v in (height, width)]
    known = [int(v) for v in sizes if v is not None]
    if len(known) == 2:
        grid = np.indices(known).reshape(2, -1)
        return op.const(grid * np.reshape(strides, (2, 1)) - np.reshape(pads[:2], (2, 1)))
    place = arange(op, height * width)
    row = place / width
    column = place - row * width
    flat = op.Concat(*(op.Reshape(v, op.const([1, -1])) for v in (row, column)), axis=0)
    steps = flat * op.const(np.reshape(strides, (2, 1)))
    return steps - op.const(np.reshape(pads[:2], (2, 1)))


def sampled(op: Builder, data: Value, places: Value, x: Value, each: int) -> Value:
    """Interpolates [N, groups, each, height * width] between 4 pixels; 0 outside of the image."""
    one, zero = op.const(1, like=x), op.const(0, like=x)
    ways = []  # for rows, then columns: index of a neighbour, whether it is inside, its weight
    # onnxruntime 1.20 and 1.21 fuse Gathers of the same value, and name two fusions equally.
    for axis, half in enumerate(op.Split(places, op.const([1, 1]), axis=0, outputs=2)):
        place = op.Squeeze(half, op.const([0]))
        at = op.Floor(place)
        upper = place - at
        size = op.Cast(size_of(op, x, 2 + axis), to=x.elem_type)
        neighbours = [(at, one - upper), (at + one, upper)]
        ways.append([(*_read(op, near, size, zero), weight) for near, weight in neighbours])
    width, total = size_of(op, x, 3), None
    for row, row_inside, down in ways[0]:
        for column, column_inside, right in ways[1]:
            index = op.Expand(row * width + column, op.const([1, 1, each, 1]))
            value = op.GatherElements(data, index, axis=3) * (down * right)
            chosen = op.Where(row_inside & column_inside, value, zero)
            total = chosen if total is None else total + chosen
    assert total is not None
    return total


def _read(op: Builder, at: Value, size: Value, zero: Value) -> tuple[Value, Value]:
    """Returns whether an index is inside, and the index, or 0 if it is outside or NaN."""
    inside = ~(at < zero) & (at < size)
    return op.Cast(op.Where(inside, at, zero), to=T.INT64), inside
