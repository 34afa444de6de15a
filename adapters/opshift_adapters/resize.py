"""Upsample and Resize: first two factors, then one for each axis, then a choice of everything."""

from typing import Any

import numpy as np
from onnx import TensorProto as T
from opshift.adapter import (
    KEEP,
    Array,
    Builder,
    Node,
    Refusal,
    Result,
    Value,
    Why,
    adapter,
    boundary,
    example,
    shown,
)

from opshift_adapters.sampling import (
    SAMPLING,
    Filter,
    Line,
    calc,
    calc_cast,
    element,
    place_type,
    resampled,
    scaled_line,
    sized_line,
)

IMAGE = "(float[1,2,3,4] x) => (float[a,b,c,d] y) "
OPEN = "(float[N,C,H,W] x) => (float[a,b,c,d] y) "
COUNT = {"x": np.arange(24).reshape(1, 2, 3, 4)}
RAMP = {"x": np.arange(72).reshape(2, 1, 6, 6) / 8 - 2}


# -- Upsample ------------------------------------------------------------------------------------


@adapter("Upsample", 6, 7)
@example("nearest", IMAGE + "{ y = Upsample<height_scale=2.0,width_scale=1.5>(x) }", gives="Upsample")
@example("bilinear", IMAGE + '{ y = Upsample<height_scale=1.0,width_scale=2.0,mode="bilinear">(x) }', gives="Upsample")
@example("unknown sizes", "(int32[N,C,H,W] x) => (int32[a,b,c,d] y) { y = Upsample<height_scale=2.0,width_scale=3.0>(x) }", gives="Upsample")
def upsample_6_7(node: Node, op: Builder) -> Result:
    """Two factors for pictures became one for each axis, and bilinear is called linear."""
    scales = [1.0, 1.0, node.float("height_scale"), node.float("width_scale")]
    mode = "linear" if node.str("mode") == "bilinear" else node.str("mode")
    return op.same(node, height_scale=None, width_scale=None, scales=scales, mode=mode)


IN_FIRST = ("bool", "int32", "int64", "float16", "float", "double")


@adapter("Upsample", 7, 6, emits=("Unsqueeze", "Squeeze", *SAMPLING), handles_types=True)
@example("linear", IMAGE + '{ y = Upsample<scales=[1.0,1.0,2.0,1.5],mode="linear">(x) }', gives="Upsample")
@example("nearest", "(bool[N,C,H,W] x) => (bool[a,b,c,d] y) { y = Upsample<scales=[1.0,1.0,2.0,2.0]>(x) }", gives="Upsample")
@example("three axes", '(float[N,C,W] x) => (float[a,b,c] y) { y = Upsample<scales=[1.0,1.0,2.5],mode="linear">(x) }', gives="Unsqueeze Upsample Squeeze")
@example("channels", "(float[1,2,3,4] x) => (float[1,4,3,6] y) { y = Upsample<scales=[1.0,2.0,1.0,1.5]>(x) }", gives="Gather Gather")
@example("channels, linear", '(float[1,2,3,4] x) => (float[1,4,3,6] y) { y = Upsample<scales=[1.0,2.0,1.0,1.5],mode="linear">(x) }', atol=1e-6)
@example("bytes", "(uint8[1,2,3,4] x) => (uint8[1,2,6,8] y) { y = Upsample<scales=[1.0,1.0,2.0,2.0]>(x) }", gives="Gather Gather")
@example("words", "(string[3] x) => (string[6] y) { y = Upsample<scales=[2.0]>(x) }", gives="Gather")
@example("bytes, unknown sizes", "(uint8[N] x) => (uint8[a] y) { y = Upsample<scales=[2.0]>(x) }", refuses=Why.NEEDS_SHAPE)
def upsample_7_6(node: Node, op: Builder) -> Result:
    """Only the last two of four axes could grow, of a few element types."""
    x, scales = node["X"], node.floats("scales")
    rank = len(scales)
    mode = "bilinear" if node.str("mode") == "linear" else node.str("mode")
    wide = [1.0] * (4 - rank) + scales
    kinds = (T.BOOL, T.INT32, T.INT64, T.FLOAT16, T.FLOAT, T.DOUBLE)
    if len(wide) == 4 and wide[:2] == [1, 1] and x.elem_type in kinds:
        picture = op.Unsqueeze(x, axes=list(range(4 - rank))) if rank < 4 else x
        named: dict[str, Any] = {"scales": None, "height_scale": wide[2], "width_scale": wide[3]}
        larger = op.same(node, inputs={"X": picture}, mode=mode, **named)
        return op.Squeeze(larger, axes=list(range(4 - rank))) if rank < 4 else larger
    dims = x.dims
    if any(scale != 1 and not isinstance(size, int) for size, scale in zip(dims, scales, strict=True)):
        x.shape  # refuses, for what grows must be known
    return _by_scales(op, x, op.const(scales, T.FLOAT), Filter(node.str("mode")))


@adapter("Upsample", 8, 9)
@example("nearest", IMAGE + "{ y = Upsample<scales=[1.0,1.0,2.0,2.0]>(x) }", gives="Upsample")
@example("linear", OPEN + '{ y = Upsample<scales=[1.0,1.0,2.0,1.5],mode="linear">(x) }', gives="Upsample")
def upsample_8_9(node: Node, op: Builder) -> Result:
    """`scales` became an input."""
    return op.same(node, scales=None, inputs={"scales": op.const(node.floats("scales"), T.FLOAT)})


TWICE = "<float[4] s = {1.0, 1.0, 2.0, 1.5}> "


@adapter("Upsample", 9, 8, emits=SAMPLING)
@example("constant", IMAGE + TWICE + "{ y = Upsample(x, s) }", gives="Upsample")
@example("computed", "(string[N,M] x, float[2] s) => (string[a,b] y) { y = Upsample(x, s) }", inputs={"s": [1, 2.5], "x": [["a", "b", "c"]]})
@example("computed and linear", '(float[N,M] x, float[2] s) => (float[a,b] y) { y = Upsample<mode="linear">(x, s) }', refuses=Why.NEEDS_CONSTANT, inputs={"s": [1, 2]})
def upsample_9_8(node: Node, op: Builder) -> Result:
    """`scales` was an attribute."""
    x, scales = node["X"], node["scales"]
    if node.str("mode") == "nearest" and scales.const_or_none() is None:
        return _by_scales(op, x, scales, Filter("nearest"))
    return op.same(node, inputs={"scales": None}, scales=scales.const().tolist())


def _by_scales(op: Builder, x: Value, scales: Value, how: Filter) -> Value:
    """The resampling of which only the scales are given."""
    rank, kind = _rank(x, scales), place_type(x, how.mode)
    lines = [scaled_line(op, x, axis, scales, kind) for axis in range(rank)]
    return resampled(op, x, rank, lines, how)


def _rank(x: Value, *per_axis: Value | None) -> int:
    """The rank, which the length of a list with one entry for each axis may tell, too."""
    if x.rank_or_none is None:
        for value in per_axis:
            shape = value.shape_or_none if value else None
            if shape:
                return shape[0]
    return x.rank


@adapter("Upsample", 9, 10, emits=("Resize",))
@example("nearest", IMAGE + TWICE + "{ y = Upsample(x, s) }", gives="Resize")
@example("computed", '(float[N,M] x, float[2] s) => (float[a,b] y) { y = Upsample<mode="linear">(x, s) }', gives="Resize", inputs={"s": [1, 2]})
def upsample_9_10(node: Node, op: Builder) -> Result:
    """Upsample became Resize, which shrinks as well."""
    return op.Resize(node["X"], node["scales"], mode=node.attr("mode"))


# It was deprecated at 10: who has it above 10 all the same may take it to where it was legal.
UPSAMPLE_10_DOWN = boundary(10, "Upsample:43dd8a", directions="down")


# -- Resize 10: asymmetric, down when enlarging and up when shrinking ----------------------------


@adapter("Resize", 10, 9, emits=("Upsample", *SAMPLING))
@example("grows", IMAGE + TWICE + "{ y = Resize(x, s) }", gives="Upsample")
@example("shrinks", IMAGE + "<float[4] s = {1.0, 1.0, 0.6, 0.5}> { y = Resize(x, s) }", gives="Gather Gather")
@example("shrinks, linear", IMAGE + '<float[4] s = {1.0, 1.0, 2.0, 0.6}> { y = Resize<mode="linear">(x, s) }', atol=1e-6)
@example("computed", "(int8[N,M] x, float[2] s) => (int8[a,b] y) { y = Resize(x, s) }", inputs={"s": [0.6, 2.5], "x": [[1, 2], [3, 4], [5, 6], [7, 8]]})
@example("computed and linear", '(float[N,M] x, float[2] s) => (float[a,b] y) { y = Resize<mode="linear">(x, s) }', inputs={"s": [0.6, 2.5]}, atol=1e-6)
@example("computed, one stays", '(float[2,2] x, float[2] s) => (float[a,b] y) { y = Resize<mode="linear">(x, s) }', inputs={"s": [1, 2], "x": [[np.inf, 1], [2, 3]]})
def resize_10_9(node: Node, op: Builder) -> Result:
    """Upsample could not shrink."""
    x, scales = node["X"], node["scales"]
    known = scales.const_or_none()
    if known is not None and (known >= 1).all():
        return op.Upsample(x, scales, mode=node.attr("mode"))
    return _by_scales(op, x, scales, Filter(node.str("mode"), rounding="by scale"))


SCALED = "(float[1,2,3,4] x, float[4] s) => (float[a,b,c,d] y) "


@adapter("Resize", 10, 11, emits=("Max", "Min"))
@example("nearest", IMAGE + TWICE + "{ y = Resize(x, s) }", gives="Resize")
@example("shrinks", "(float[4] x) => (float[2] y) <float[1] s = {0.6}> { y = Resize(x, s) }", gives="Resize", inputs={"x": [1, 2, 3, 4]})
@example("both", IMAGE + "<float[4] s = {1.0, 2.0, 0.5, 1.5}> { y = Resize(x, s) }", gives="Resize Resize")
@example("computed", SCALED + "{ y = Resize(x, s) }", gives="Max Resize Min Resize", inputs={"s": [1, 2, 0.6, 1.5]})
@example("linear", OPEN + TWICE + '{ y = Resize<mode="linear">(x, s) }', gives="Resize", inputs=COUNT)
@example("linear, computed", SCALED + '{ y = Resize<mode="linear">(x, s) }', gives="Resize", inputs={"s": [1, 1, 0.5, 2], **COUNT})
def resize_10_11(node: Node, op: Builder) -> Result:
    """Coordinates and rounding, once asymmetric and away from the old size, are named."""
    x, scales = node["X"], node["scales"]
    if node.str("mode") == "linear":
        return _asymmetric(node, op, x, scales)
    known = scales.const_or_none()
    if known is not None and (known >= 1).all():
        return _asymmetric(node, op, x, scales, nearest_mode="floor")
    if known is not None and (known <= 1).all():
        return _asymmetric(node, op, x, scales, nearest_mode="ceil")
    one = op.const(1, T.FLOAT)
    larger = _asymmetric(node, op, x, calc(op, "Max", scales, one), nearest_mode="floor")
    return _asymmetric(node, op, larger, calc(op, "Min", scales, one), nearest_mode="ceil")


def _asymmetric(node: Node, op: Builder, x: Value, scales: Value, **named: Any) -> Value:
    return op.Resize(
        x, op.const([], T.FLOAT), scales, mode=node.attr("mode"),
        coordinate_transformation_mode="asymmetric", **named,
    )  # fmt: skip


# -- Resize 11 and later -------------------------------------------------------------------------


def _given(node: Node, name: str) -> Value | None:
    """An optional input, where a constant without elements counts as absent."""
    value = node.input(name)
    known = value.const_or_none() if value else None
    return None if known is not None and known.size == 0 else value


def _written_out(node: Node, op: Builder) -> Value:
    """Resize by its definition, which needs no more than the rank."""
    x, roi = node["X"], _given(node, "roi")
    scales, sizes = _given(node, "scales"), _given(node, "sizes")
    rank = _rank(x, scales, sizes)
    return resampled(op, x, rank, _lines(node, op, x, rank, roi, scales, sizes), _filter(node))


def _filter(node: Node) -> Filter:
    return Filter(
        node.str("mode"), node.str("coordinate_transformation_mode"), node.str("nearest_mode"),
        node.float("cubic_coeff_a"), bool(node.int("exclude_outside")),
        node.float("extrapolation_value"),
    )  # fmt: skip


def _lines(
    node: Node, op: Builder, x: Value, rank: int,
    roi: Value | None, scales: Value | None, sizes: Value | None,
) -> list[Line]:  # fmt: skip
    kind = place_type(x, node.str("mode"))
    if sizes is not None:
        lines = [sized_line(op, x, axis, sizes, kind) for axis in range(rank)]
    elif scales is not None:
        lines = [scaled_line(op, x, axis, scales, kind) for axis in range(rank)]
        _whole_only(node, lines)
    else:
        raise Refusal(Why.AMBIGUOUS, "neither scales nor sizes are given")
    if node.str("coordinate_transformation_mode") != "tf_crop_and_resize":
        return lines
    if roi is None:
        raise Refusal(Why.AMBIGUOUS, "tf_crop_and_resize without a region")
    ends = [calc_cast(op, element(op, roi, i), kind) for i in range(2 * rank)]
    return [
        Line(one.axis, one.old, one.new, one.scale, ends[one.axis], ends[one.axis + rank])
        for one in lines
    ]


def _whole_only(node: Node, lines: list[Line]) -> None:
    """Where a size that scales give is no whole number, not all modes are agreed upon."""
    if node.str("coordinate_transformation_mode") not in ("align_corners", "tf_crop_and_resize"):
        return
    for one in lines:
        scale, old, new = (v.const_or_none() for v in (one.scale, one.old, one.new))
        if scale is not None and scale == 1:
            continue
        if scale is None or old is None or new is None or np.float64(scale) * old != new:
            raise Refusal(Why.AMBIGUOUS, "scales that may give a fraction of an element")
