"""RoiAlign, AffineGrid, ImageDecoder: regions and places in pictures."""

import numpy as np
from opshift.adapter import (
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
    impossible,
)
from opshift.combinators import cast_around

from opshift_adapters.blocks import ARANGE, arange, part
from opshift_adapters.calc import calc, calc_cast, column, element

IMAGE_DECODER_20 = impossible(
    "ImageDecoder", 20, 19, "image decoding has no older operator",
    cases=[("any", "(uint8[N] x) => (uint8[H,W,C] y) { y = {op}(x) }")],
)  # fmt: skip

# -- RoiAlign ------------------------------------------------------------------------------------

ROI_ALIGN_22 = boundary(22, "RoiAlign:b0256a", cast=cast_around("float"))
REGIONS = "(float[1,2,8,8] x, float[2,4] r, int64[2] b) => (float[2,2,2,2] y) "
PLACES = {"r": [[0, 0, 5, 6], [1, 2, 4, 3.5]], "b": [0, 0]}
KNOWN = "(float[1,2,8,8] x) => (float[2,2,2,2] y) <int64[2] b = {0, 0}, float[2,4] r = {0,0,5,6, 1,2,8,7}> "
SIZED = "output_height=2,output_width=2"


@adapter("RoiAlign", 15, 16)
@example("average", REGIONS + f"{{ y = RoiAlign<{SIZED}>(x, r, b) }}", gives="RoiAlign", inputs=PLACES)
@example("largest", REGIONS + f'{{ y = RoiAlign<{SIZED},mode="max",sampling_ratio=2,spatial_scale=0.5>(x, r, b) }}', gives="RoiAlign", inputs=PLACES)
def roi_align_15_16(node: Node, op: Builder) -> Result:
    """Pixels were not shifted by half, which became a choice, and not the default."""
    return op.same(node, coordinate_transformation_mode="output_half_pixel")


@adapter("RoiAlign", 16, 15, emits=("Sub",), approximate=True)
@example("not shifted", REGIONS + f'{{ y = RoiAlign<{SIZED},coordinate_transformation_mode="output_half_pixel">(x, r, b) }}', gives="RoiAlign", inputs=PLACES)
@example("shifted, constant", KNOWN + f"{{ y = RoiAlign<{SIZED}>(x, r, b) }}", gives="RoiAlign")
@example("shifted, scaled", KNOWN + f"{{ y = RoiAlign<{SIZED},spatial_scale=0.5>(x, r, b) }}", gives="RoiAlign")
@example("shifted, below one pixel", KNOWN + f"{{ y = RoiAlign<{SIZED},spatial_scale=0.125>(x, r, b) }}", refuses=Why.NOT_EXPRESSIBLE)
@example("shifted, computed", REGIONS + f"{{ y = RoiAlign<{SIZED}>(x, r, b) }}", refuses=Why.APPROXIMATE_ONLY, inputs=PLACES)
@example("shifted, computed, allowed", REGIONS + f"{{ y = RoiAlign<{SIZED}>(x, r, b) }}", gives="Sub RoiAlign", inputs=PLACES, approximate=True, atol=1e-6)
def roi_align_16_15(node: Node, op: Builder) -> Result:
    """There was no shift by half a pixel, and regions grew to one pixel at least."""
    if node.str("coordinate_transformation_mode") == "output_half_pixel":
        return op.same(node, coordinate_transformation_mode=None)
    regions = node["rois"].const_or_none()
    if regions is None:
        op.approximate("regions below one pixel grow to one pixel before opset 16")
        half_pixel = op.const(0.5 / node.float("spatial_scale"), like=node["rois"])
        computed = {"rois": op.Sub(node["rois"], half_pixel)}
        return op.same(node, inputs=computed, coordinate_transformation_mode=None)
    scale = regions.dtype.type(node.float("spatial_scale"))
    half = regions.dtype.type(0.5)
    shifted = regions - half / scale
    corners = regions * scale - half
    large = corners[:, 2:] - corners[:, :2] >= 1
    if not large.all() or not np.array_equal(shifted * scale, corners):
        raise Refusal(
            Why.NOT_EXPRESSIBLE,
            "half_pixel RoiAlign on RoIs below one pixel has no equivalent before opset 16",
        )
    moved = {"rois": op.const(shifted, like=node["rois"])}
    return op.same(node, inputs=moved, coordinate_transformation_mode=None)


ROI_ALIGN_10 = impossible(
    "RoiAlign", 10, 9, "sampled region pooling needs opset 10",
    cases=[("any", "(float[1,2,4,4] x, float[3,4] r, int64[3] b) => (float[3,2,1,1] y) { y = {op}(x, r, b) }")],
)  # fmt: skip

# -- AffineGrid ----------------------------------------------------------------------------------

GRID = "(float[2,2,3] t) => (float[2,3,4,2] y) <int64[4] s = {2,1,3,4}> "
SOLID = "(double[1,3,4] t) => (double[1,2,3,4,3] y) <int64[5] s = {1,1,2,3,4}> "


@adapter("AffineGrid", 20, 19, emits=("MatMul", "Transpose", "Reshape", "Expand", "Concat", "Unsqueeze", "Gather", "Slice", "Cast", "Sub", "Mul", "Div", "Max", *ARANGE))
@example("constant", GRID + "{ y = AffineGrid(t, s) }", atol=1e-6)
@example("corners", GRID + "{ y = AffineGrid<align_corners=1>(t, s) }", atol=1e-6)
@example("solid", SOLID + "{ y = AffineGrid(t, s) }", atol=1e-14)
@example("half", GRID.replace("float", "float16") + "{ y = AffineGrid(t, s) }", atol=2e-3)
@example("one row and its end", "(float[2,2,3] t) => (float[2,1,4,2] y) <int64[4] s = {2,1,1,4}> { y = AffineGrid<align_corners=1>(t, s) }", refuses=Why.AMBIGUOUS)
@example("computed", "(float[N,2,3] t, int64[4] s) => (float[a,b,c,d] y) { y = AffineGrid(t, s) }", atol=1e-6, inputs={"s": [2, 1, 3, 4]})
@example("computed corners", "(double[N,3,4] t, int64[5] s) => (double[a,b,c,d,e] y) { y = AffineGrid<align_corners=1>(t, s) }", atol=1e-14, inputs={"s": [2, 1, 3, 4, 2]})
@example("unknown number of axes", "(float[N,2,3] t, int64[k] s) => (float[a,b,c,d] y) { y = AffineGrid(t, s) }", refuses=Why.NEEDS_SHAPE, inputs={"s": [2, 1, 3, 4]})
def affine_grid_20_19(node: Node, op: Builder) -> Result:
    """Before its birth: evenly spaced places times the matrix."""
    theta, size, kind = node["theta"], node["size"], node["theta"].elem_type
    work = T.DOUBLE if kind == T.DOUBLE else T.FLOAT
    count = size.shape[0] - 2
    lines = [_line(node, op, element(op, size, 2 + i), work) for i in range(count)]
    matrix = theta if kind == work else op.Cast(theta, to=work)
    sizes = part(op, size, 2)
    moved = op.MatMul(_places(op, lines, sizes, work), op.Transpose(matrix, perm=[0, 2, 1]))
    if sizes.const_or_none() is not None:
        shape = op.const([-1, *sizes.const().tolist(), count])
    else:
        shape = op.Concat(op.const([-1]), sizes, op.const([count]), axis=0)
    grid = op.Reshape(moved, shape)
    return grid if kind == work else op.Cast(grid, to=kind)


def _line(node: Node, op: Builder, size: Value, kind: int) -> Value:
    """Places along one axis between -1 and 1, from edge to edge or from centre to centre."""
    corners, known = node.int("align_corners"), size.const_or_none()
    if corners and known is not None and known == 1:
        raise Refusal(Why.AMBIGUOUS, "nobody says where the only element of an axis lies")
    one, two = op.const(1, kind), op.const(2, kind)
    at = calc(op, "Mul", calc_cast(op, arange(op, size), kind), two)
    length = calc_cast(op, size, kind)
    if corners:
        steps = calc(op, "Max", calc(op, "Sub", length, one), one)
        return calc(op, "Sub", calc(op, "Div", at, steps), one)
    return calc(op, "Sub", calc(op, "Div", calc(op, "Add", at, one), length), one)


def _places(op: Builder, lines: list[Value], sizes: Value, kind: int) -> Value:
    """Every place as a row of coordinates, the last axis first, with a 1 behind them."""
    columns = [column(op, line, len(lines), i) for i, line in enumerate(lines)][::-1]
    columns.append(op.const(1, kind))
    last = op.const([-1])
    spread = [op.Unsqueeze(op.Expand(column, sizes), last) for column in columns]
    stacked = op.Concat(*spread, axis=-1)
    return op.Reshape(stacked, op.const([1, -1, len(lines) + 1]))
