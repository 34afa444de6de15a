# SPDX-License-Identifier: Apache-2.0
"""Resize: asymmetric in opset 10; later opsets add modes, `sizes`, `axes` and `antialias`."""

import functools
from typing import Any

from opshift.adapter import (
    KEEP,
    Array,
    Builder,
    Node,
    Result,
    Surroundings,
    T,
    Value,
    adapter,
    alternative,
    boundary,
    by_width,
    form,
    misread,
    np,
)

from opshift_adapters._lib import resizing
from opshift_adapters._lib.kinds import parted
from opshift_adapters._lib.makers import maker
from opshift_adapters._lib.sampling import Filter, by_scales, takes_nearest

ROUNDED = by_width("Resize", unless=takes_nearest)  # interpolated integers are rounded
OF_MODES = ("nearest_mode", "cubic_coeff_a", "exclude_outside", "extrapolation_value")
OF_OTHER_MODES = dict.fromkeys(OF_MODES, "the attribute has no effect in this mode of Resize")
ADDED_18 = ("antialias", "axes", "keep_aspect_ratio_policy")


@adapter("Resize", 10, 9)
def resize_10_9(node: Node, op: Builder) -> Result:
    """Below opset 10, Resize becomes Upsample, or gathered elements if an axis shrinks."""
    x, scales = node["X"], node["scales"]
    constant = scales.const_or_none()
    if constant is not None and (constant >= 1).all():
        return op.Upsample(x, scales, mode=node.attr("mode"))
    return by_scales(op, x, scales, Filter(node.str("mode"), rounding="by scale"))


@form("Resize")
def typed_scales(node: Node, op: Builder) -> Result:
    """`scales` of Resize-10 gets float_data, because onnxruntime 0.4 does not read raw_data."""
    constant = node["scales"].const_or_none() if op.version == 10 else None
    return KEEP if constant is None else op.same(node, inputs={"scales": op.const(constant)})


OF_KERNELS = functools.partial(
    misread,
    "Resize Upsample",
    since=7,
    source="2026-11-30 27 releases, 1.0..1.32: 2,000 forms of one to six axes",
)
FIRST_AXES = {"linear": {2: 0, 3: 0, 4: 2, 5: 2}, "cubic": {2: 0, 4: 2}}  # by mode and rank
WITHIN = "asymmetric", "align_corners"  # the modes without positions outside of the input
INNER = (4, {1}), (4, {1, 2})  # the rank and the axes of pictures whose channels are last


def _scaled(node: Node) -> tuple[int, set[int]]:
    """Returns the rank, or 0 if it is unknown, and the axes that are known to change."""
    scales = resizing.factors(node)
    changed = {axis for axis, factor in scales.items() if factor not in (None, 1)}
    return node["X"].rank_or_none or len(scales), changed


@OF_KERNELS("onnxruntime 0.4..1.32", "{op} that interpolates these axes does not run")
def blends_other_axes(node: Node) -> bool:
    mode, (rank, changed) = node.str("mode"), _scaled(node)
    if mode == "nearest" or not rank:
        return False
    if (rank, changed) in INNER:
        return mode == "cubic" and not resizing.antialias(node)
    return min(changed, default=rank) < FIRST_AXES[mode].get(rank, rank + 1)


@OF_KERNELS("onnxruntime 0.4..1.4", "{op} of three or five axes does not run or is misread")
def blends_along_a_line(node: Node) -> bool:
    rank = _scaled(node)[0]
    if node.str("mode") == "nearest" and len(node.inputs) > 2:
        return rank > 4 and node.str("coordinate_transformation_mode") not in WITHIN
    return node.str("mode") == "linear" and rank in (3, 5)


@OF_KERNELS("onnxruntime 0.4..1.11", "{op} with mode linear returns wrong numbers along axis 1")
def blends_before_the_last_axis(node: Node) -> bool:
    return node.str("mode") == "linear" and _scaled(node) in INNER


@misread("Resize", "onnxruntime 1.0..1.32", source="2026-11-30 1.0..1.32: 256 crops", since=11)
def crops_without_scaling(node: Node) -> bool | None:
    """Resize ignores a crop along an axis that keeps its size."""
    return resizing.ignores_a_crop(node)


OF_AXES = functools.partial(
    misread,
    "Resize",
    since=18,
    source="2026-11-30 12 releases, 1.14..1.32: 162 forms of Resize with axes",
)


@OF_AXES("onnxruntime 1.14..1.26", "Resize with negative axes crashes the process or is refused")
def counts_axes_from_the_end(node: Node) -> bool:
    return any(axis < 0 for axis in node.ints_or_none("axes") or ())


@OF_AXES("onnxruntime 1.27..1.32", "Resize of one scale for negative axes returns wrong sizes")
def scales_axes_from_the_end(node: Node) -> bool:
    return counts_axes_from_the_end.run(node) is True and resizing.keeps_aspect(node)


def _is_turned(node: Node) -> bool:
    return node.str("mode") == "cubic" and maker(node["X"], "Transpose") is not None


@misread("Resize", "onnxruntime 1.12..1.32", source="2026-11-30 1.11..1.32: 7 forms", since=11)
def is_between_transposes(node: Node, around: Surroundings) -> bool:
    """{op} of mode cubic between two Transposes does not load."""
    y = node.outputs[0]
    after = around.readers(y) if y is not None and _is_turned(node) else ()
    return any(reader.op == "Transpose" for reader in after)


@alternative("Resize", runtime="onnxruntime==1.4")
def blended(node: Node, op: Builder) -> Result:
    """Resize is written as Gather and sums, after positive axes, or between two Reshapes."""
    if op.version >= 11 and _is_turned(node) and not blends_other_axes.run(node):
        return parted(op, op.same(node, inputs={"X": parted(op, node["X"])}))
    if op.version >= 18 and counts_axes_from_the_end.run(node):
        return op.same(node, axes=resizing.axes(node))
    if op.version >= 11:
        return resizing.written_out(node, op)
    return by_scales(op, node["X"], node["scales"], Filter(node.str("mode"), rounding="by scale"))


@adapter("Resize", 10, 11)
def resize_10_11(node: Node, op: Builder) -> Result:
    """Opset 11 added modes for coordinates and rounding; the modes of opset 10 become explicit."""
    x, scales = node["X"], node["scales"]
    if node.str("mode") == "linear":
        return _asymmetric(node, op, x, scales)
    constant = scales.const_or_none()
    if constant is not None and (constant >= 1).all():
        return _asymmetric(node, op, x, scales, nearest_mode="floor")
    if constant is not None and (constant <= 1).all():
        return _asymmetric(node, op, x, scales, nearest_mode="ceil")
    one = op.const(1, T.FLOAT)
    larger = _asymmetric(node, op, x, op.Max(scales, one), nearest_mode="floor")
    return _asymmetric(node, op, larger, op.Min(scales, one), nearest_mode="ceil")


def _asymmetric(node: Node, op: Builder, x: Value, scales: Value, **named: Any) -> Value:
    named |= {"mode": node.attr("mode"), "coordinate_transformation_mode": "asymmetric"}
    result: Value = op.Resize(x, op.const([], T.FLOAT), scales, **named)
    return result


@adapter("Resize", 11, 10, handles_types=True, ignores=OF_OTHER_MODES)
def resize_11_10(node: Node, op: Builder) -> Result:
    """Below opset 11, Resize has no `sizes` and few modes; other modes become Gather and sums."""
    lists = resizing.given(node)
    scales, sizes = lists["scales"], lists["sizes"]
    plain = scales if sizes is None else _as_scales(op, node["X"], sizes)
    if plain is not None and _always_so(node, plain.const_or_none()):
        changed: dict[str, Any] = dict.fromkeys(("coordinate_transformation_mode", *OF_MODES))
        changed["inputs"] = {"roi": None, "sizes": None, "scales": plain}
        bare: Value = op.same(node, **changed)
        return bare
    return resizing.written_out(node, op)


def _as_scales(op: Builder, x: Value, sizes: Value) -> Value | None:
    """Returns constant scales that result in exactly these sizes, or None."""
    goal, shape = sizes.const_or_none(), x.shape_or_none
    if goal is None or shape is None or 0 in shape:
        return None
    scales = goal.astype(np.float32) / np.array(shape, dtype=np.float32)
    kinds = (np.float32, np.float64)  # runtimes multiply in one or the other type
    fits = all((np.floor(scales.astype(k) * np.array(shape, dtype=k)) == goal).all() for k in kinds)
    return op.const(scales) if fits else None


def _always_so(node: Node, scales: Array | None) -> bool:
    """Returns whether Resize of opset 10 is known to have the same result on every axis."""
    where = node.str("coordinate_transformation_mode")
    if node.str("mode") != "nearest":
        is_plain = node.str("mode") == "linear" and where == "asymmetric"
        return is_plain and not node.int("exclude_outside")
    if scales is None:
        return False
    return all(_same_nearest(where, node.str("nearest_mode"), float(scale)) for scale in scales)


def _same_nearest(where: str, rounding: str, scale: float) -> bool:
    """Returns whether Resize of opset 10 selects the same elements along one axis."""
    whole, centred = scale.is_integer(), rounding.startswith("round_prefer")
    if where == "asymmetric":
        if scale >= 1:
            doubles = rounding == "round_prefer_floor" and scale == 2
            return rounding == "floor" or scale == 1 or doubles
        return rounding == "ceil" or np.frexp(scale)[0] == 0.5
    if where in ("half_pixel", "pytorch_half_pixel"):
        return scale == 1 or (whole and centred)
    return where == "tf_half_pixel_for_nn" and whole and rounding == "floor"


@adapter("Resize", 12, 13)
def resize_12_13(node: Node, op: Builder) -> Result:
    """Opset 13 made inputs of Resize optional and removed tf_half_pixel_for_nn."""
    if node.str("coordinate_transformation_mode") == "tf_half_pixel_for_nn":
        if (node.str("mode"), node.str("nearest_mode")) != ("nearest", "floor"):
            return resizing.written_out(node, op)
        named = {
            "coordinate_transformation_mode": "half_pixel",
            "nearest_mode": "round_prefer_ceil",
        }
    else:
        named = {}
    return op.same(node, inputs=resizing.given(node), **named)


@adapter("Resize", 13, 12)
def resize_13_12(node: Node, op: Builder) -> Result:
    """Opset 13 made `roi` and `scales` optional; below opset 13, empty tensors are written."""
    empty = op.const([], T.FLOAT)
    lists = {name: node.input(name) or empty for name in ("roi", "scales")}
    return op.same(node, inputs=lists)


RESIZE_18_UP = boundary(18, "Resize:5422e9", directions="up")


@adapter("Resize", 18, 17)
def resize_18_17(node: Node, op: Builder) -> Result:
    """Below opset 18, `axes`, `antialias` and the aspect ratio policy of Resize are written out."""
    if not any(node.has(name) for name in ADDED_18):
        return KEEP
    x, lists = node["X"], resizing.all_axes(node, op)
    if node.str("mode") != "nearest" and resizing.smooth(node, lists, x):
        return resizing.written_out(node, op)
    if resizing.keeps_aspect(node):
        whole = _whole_sizes(node, op, lists["sizes"])
        if whole is None:
            return resizing.written_out(node, op)
        lists["sizes"] = whole
    return op.same(node, inputs=lists, antialias=None, axes=None, keep_aspect_ratio_policy=None)


def _whole_sizes(node: Node, op: Builder, sizes: Value | None) -> Value | None:
    """Returns constant sizes of all axes if their common scale needs no rounding, else None."""
    x = node["X"]
    if sizes is None or sizes.const_or_none() is None or x.shape_or_none is None:
        return None
    sizes_found = list(x.shape)
    for axis in resizing.in_proportion(node, op, sizes, T.DOUBLE):
        new = int(axis.new.const())
        if abs(axis.scale.const() * sizes_found[axis.axis] - new) > 1e-9:
            return None
        sizes_found[axis.axis] = new
    return op.const(sizes_found)


RESIZE_19_UP = boundary(19, "Resize:2a564e", directions="up")


@misread("Resize", "onnxruntime 0.4..1.14", source="2026-11-29 1.14..1.32", since=11, before=19)
def is_symmetric_like_opset_19(node: Node) -> bool:
    """Resize below opset 19 with half_pixel_symmetric of opset 19 does not load."""
    return node.str("coordinate_transformation_mode") == "half_pixel_symmetric"


@adapter("Resize", 19, 18)
def resize_19_18(node: Node, op: Builder) -> Result:
    """Below opset 19, Resize of half_pixel_symmetric becomes half_pixel, or Gather and sums."""
    if node.str("coordinate_transformation_mode") != "half_pixel_symmetric":
        return KEEP
    scales = resizing.given(node)["scales"]
    whole = scales is None or _whole(node["X"], scales.const_or_none(), node)
    if whole and not resizing.keeps_aspect(node):
        return op.same(node, coordinate_transformation_mode="half_pixel")
    return resizing.written_out(node, op)


def _whole(x: Value, scales: Array | None, node: Node) -> bool:
    """Returns whether size times scale is a whole number on each axis."""
    if scales is None:
        return False
    if all(float(scale).is_integer() for scale in scales):
        return True
    dims = x.dims_or_none
    if dims is None:
        return False
    sizes = [dims[axis] for axis in resizing.axes(node)]
    products = zip(scales.astype(float), sizes, strict=True)
    return all(isinstance(size, int) and (scale * size).is_integer() for scale, size in products)
