# SPDX-License-Identifier: Apache-2.0
"""RoiAlign: interpolated samples of regions of images."""

from dataclasses import dataclass

from opshift.adapter import Builder, Node, Result, T, Value, adapter, boundary, np
from opshift.combinators import cast_around

from opshift_adapters._lib.blocks import arange, column, element, part, size_of
from opshift_adapters._lib.kinds import as_type

ROI_ALIGN_22 = boundary(22, "RoiAlign:b0256a", cast=cast_around("float"))


@adapter("RoiAlign", 15, 16)
def roi_align_15_16(node: Node, op: Builder) -> Result:
    """Opset 16 added `coordinate_transformation_mode`; before, RoiAlign used output_half_pixel."""
    return op.same(node, coordinate_transformation_mode="output_half_pixel")


@adapter("RoiAlign", 16, 15)
def roi_align_16_15(node: Node, op: Builder) -> Result:
    """Below opset 16, RoiAlign has no half_pixel; regions are shifted, or samples are gathered."""
    if node.str("coordinate_transformation_mode") == "output_half_pixel":
        return op.same(node, coordinate_transformation_mode=None)
    regions = node["rois"].const_or_none()
    if regions is None:
        return _written_out(node, op, shift=0.5, least=None)
    scale = regions.dtype.type(node.float("spatial_scale"))
    half = regions.dtype.type(0.5)
    shifted = regions - half / scale
    corners = regions * scale - half
    large = corners[:, 2:] - corners[:, :2] >= 1
    if not large.all() or not np.array_equal(shifted * scale, corners):
        return _written_out(node, op, shift=0.5, least=None)
    moved = {"rois": op.const(shifted, like=node["rois"])}
    return op.same(node, inputs=moved, coordinate_transformation_mode=None)


@adapter("RoiAlign", 10, 9)
def roi_align_10_9(node: Node, op: Builder) -> Result:
    """Opset 10 added RoiAlign; below opset 10, a Loop over the regions computes the samples."""
    return _written_out(node, op, shift=0.0, least=1.0)


@dataclass(frozen=True, slots=True)
class SampledAxis:
    """The samples along one axis: two pixels each, their weights, whether a sample is inside."""

    low: Value
    high: Value
    near: Value
    far: Value
    inside: Value
    each: Value  # the number of samples of a bin, as a vector of one element
    some: Value | None  # whether a bin has samples; None if all bins have samples


def _written_out(node: Node, op: Builder, *, shift: float, least: float | None) -> Value:
    x, batch = node["X"], node["batch_indices"]
    kind = T.DOUBLE if x.elem_type == T.DOUBLE else T.FLOAT
    image, rois = as_type(op, x, kind), as_type(op, node["rois"], kind)
    sizes = [op.Cast(size_of(op, x, axis), to=kind) for axis in (2, 3)]
    bins = [node.int("output_height"), node.int("output_width")]
    ratio, mode = node.int("sampling_ratio"), node.str("mode").lower()

    def region(b: Builder, i: Value, keep: Value, state: Value) -> tuple[Value, Value, Value]:
        scaled = b.Gather(rois, i, axis=0) * b.const(node.float("spatial_scale"), kind)
        corners = scaled - b.const(shift, kind)
        rows, columns = (_line(b, corners, k, bins[k], sizes[k], ratio, least) for k in (0, 1))
        picture = b.Gather(image, b.Gather(batch, i, axis=0), axis=0)
        samples = _samples(b, picture, rows, columns, mode, kind)
        sides = (b.const([0, bins[0]]), rows.each, b.const([bins[1]]), columns.each)
        shape = b.Concat(*sides, axis=0)
        tiles = b.Reshape(samples, shape)
        pool = b.ReduceMean if mode == "avg" else b.ReduceMax
        pooled = pool(tiles, axes=[2, 4], keepdims=0)
        if rows.some is not None and columns.some is not None:
            pooled = b.Where(rows.some & columns.some, pooled, b.const(0, kind))
        return b.Identity(keep), b.Identity(state), pooled

    body = op.graph(region, (T.INT64, ()), (T.BOOL, ()), (T.INT64, ()))
    count, going = size_of(op, node["rois"], 0), op.const(True, T.BOOL)
    _, pooled = op.Loop(count, going, op.const(0), body=body, outputs=2)
    shape = op.Concat(op.Shape(batch), part(op, op.Shape(x), 1, 2), op.const(bins), axis=0)
    return as_type(op, op.Reshape(pooled, shape), x.elem_type)


def _line(
    op: Builder, corners: Value, k: int, bins: int, size: Value, ratio: int, least: float | None
) -> SampledAxis:
    """Returns the samples of one region along one axis; they are evenly spaced in each bin."""
    first, last, kind = element(op, corners, 1 - k), element(op, corners, 3 - k), corners.elem_type
    zero, one, number = op.const(0, kind), op.const(1, kind), op.const(bins, kind)
    length = last - first
    if least is not None:
        length = op.Max(length, op.const(least, kind))
    step, some = length / number, None
    each = op.const(ratio, kind)
    if ratio <= 0:
        asked = op.Ceil(step)
        each, some = op.Max(asked, one), asked > zero
    whole = op.Cast(each, to=T.INT64)
    index = arange(op, whole * bins)
    tile = index / whole
    within = op.Cast(index - tile * whole, to=kind) + 0.5
    start = first + op.Cast(tile, to=kind) * step
    place = start + within * step / each
    outside = (place < -1) | (place > size)
    edge, place = size - one, op.Max(place, zero)
    low = op.Min(op.Floor(place), edge)
    high = op.Min(low + one, edge)
    far = op.Min(place, edge) - low
    low, high, near = op.Cast(low, to=T.INT64), op.Cast(high, to=T.INT64), one - far
    inside, each = ~outside, op.Reshape(whole, op.const([1]))
    return SampledAxis(low, high, near, far, inside, each, some)


def _samples(
    op: Builder, picture: Value, rows: SampledAxis, columns: SampledAxis, mode: str, kind: int
) -> Value:
    """Returns the value of each sample: the sum or the maximum of four weighted pixels."""
    shares = []
    for row, height in ((rows.low, rows.near), (rows.high, rows.far)):
        line = op.Gather(picture, row, axis=1)
        for place, width in ((columns.low, columns.near), (columns.high, columns.far)):
            weight = column(op, height, 2, 0) * width
            shares.append(weight * op.Gather(line, place, axis=2))
    inside = column(op, rows.inside, 2, 0) & columns.inside
    a, b, c, d = shares
    value = a + b + c + d if mode == "avg" else op.Max(a, b, c, d)
    return op.Where(inside, value, op.const(0, kind))
