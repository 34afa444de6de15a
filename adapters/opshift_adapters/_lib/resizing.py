# SPDX-License-Identifier: Apache-2.0
"""Resize: its inputs for every axis, the change of each axis, and its decomposition."""

from collections.abc import Mapping

from opshift.adapter import Builder, Node, Refusal, T, Value, Why, np

from opshift_adapters._lib.blocks import element, shape_of, size_of
from opshift_adapters._lib.makers import maker
from opshift_adapters._lib.sampling import (
    Filter,
    ResampledAxis,
    place_type,
    rank_of,
    resampled,
    scale_is_one,
    scaled_line,
    sized_line,
)

Lists = Mapping[str, Value | None]


def given(node: Node) -> dict[str, Value | None]:
    """Returns roi, scales and sizes; an empty input is None, and scales or sizes is None."""
    lists = {name: _unless_empty(node.input(name)) for name in ("roi", "scales", "sizes")}
    scales = lists["scales"]
    if scales is not None and scales.shape_or_none:
        lists["sizes"] = None
    elif lists["sizes"] is not None:
        lists["scales"] = None
    return lists


def _unless_empty(value: Value | None) -> Value | None:
    return None if value is None or value.shape_or_none == (0,) else value


def written_out(node: Node, op: Builder) -> Value:
    """Writes Resize by its definition, for which only the rank must be known."""
    x = node["X"]
    lists = all_axes(node, op)
    rank = rank_of(x, lists["scales"], lists["sizes"])
    lines = _lines(node, op, rank, lists)
    return resampled(op, x, rank, lines, _filter(node))


def _filter(node: Node) -> Filter:
    names = ("mode", "coordinate_transformation_mode", "nearest_mode")
    mode, coordinates, nearest = map(node.str, names)
    cubic, excludes = node.float("cubic_coeff_a"), bool(node.int("exclude_outside"))
    outside = node.float("extrapolation_value")
    return Filter(mode, coordinates, nearest, cubic, excludes, outside, antialias(node))


def _lines(node: Node, op: Builder, rank: int, lists: Lists) -> list[ResampledAxis]:
    """Returns the old size, new size and scale of each axis that changes."""
    x, scales, sizes = node["X"], lists["scales"], lists["sizes"]
    kind = place_type(x, node.str("mode"))
    if sizes is not None:
        if keeps_aspect(node):
            lines = in_proportion(node, op, sizes, kind)
        else:
            copied = _copied(x, sizes)
            lines = [sized_line(op, x, axis, sizes, kind) for axis in range(copied, rank)]
    elif scales is not None:
        crop = node.str("coordinate_transformation_mode") == "tf_crop_and_resize"
        changing = [axis for axis in range(rank) if crop or not scale_is_one(scales, axis)]
        lines = [scaled_line(op, x, axis, scales, kind) for axis in changing]
        if node.str("coordinate_transformation_mode") == "align_corners":
            lines = [line for line in lines if not _keeps_its_size(line)]
    else:
        raise Refusal(Why.AMBIGUOUS, "Resize needs scales or sizes, and both inputs are missing")
    if sizes is None or keeps_aspect(node):
        _whole_only(node, lines)
    if node.str("coordinate_transformation_mode") != "tf_crop_and_resize":
        return lines
    roi = lists["roi"]
    if roi is None:
        raise Refusal(
            Why.AMBIGUOUS, "tf_crop_and_resize needs a region (the input roi), which is missing"
        )
    lines_of_axes = []
    for one in lines:
        ends = (op.Cast(element(op, roi, at), to=kind) for at in (one.axis, one.axis + rank))
        lines_of_axes.append(ResampledAxis(one.axis, one.old, one.new, one.scale, *ends))
    return lines_of_axes


def _copied(x: Value, sizes: Value) -> int:
    """Returns how many leading sizes are copied from `x` by Concat(Slice(Shape(x)), ...)."""
    joined = maker(sizes, "Concat")
    cut = maker(joined.inputs[0], "Slice") if joined is not None else None
    if cut is None or len(cut.inputs) not in (3, 4):
        return 0
    whole, start, end = (value for value in cut.inputs[:3] if value is not None)
    shape = whole.producer
    if shape is None or shape.op != "Shape" or shape.attributes or shape.inputs[0] is None:
        return 0
    begin, count = start.const_or_none(), end.const_or_none()
    if not shape.inputs[0].is_same(x) or begin is None or count is None or begin.any():
        return 0
    return max(int(count.flat[0]), 0)


def _keeps_its_size(axis: ResampledAxis) -> bool:
    """Returns whether an axis is known to keep its size, so that align_corners moves no element."""
    old, new = axis.old.const_or_none(), axis.new.const_or_none()
    return old is not None and new is not None and bool(old == new)


def factors(node: Node) -> dict[int, float | None]:
    """Returns the factor by which Resize or Upsample scales each axis, or None if it is unknown."""
    if "scales" in node.attributes:
        return dict(enumerate(node.floats("scales")))
    x, lists = node["X"], given(node) if len(node.inputs) > 2 else {"scales": node["scales"]}
    scales, sizes = (v and v.const_or_none() for v in map(lists.get, ("scales", "sizes")))
    goals = sizes if scales is None and not keeps_aspect(node) else scales
    if goals is None:
        return dict.fromkeys(range(x.rank_or_none or 0))
    named = axes(node) if "axes" in node.attributes else range(len(goals))
    dims = dict(enumerate(x.dims_or_none or ())) if scales is None else dict.fromkeys(named, 1)
    old = [dims.get(axis) for axis in named]
    wholes = zip(named, goals.tolist(), old, strict=True)
    return {i: goal / size if isinstance(size, int) and size else None for i, goal, size in wholes}


def ignores_a_crop(node: Node) -> bool | None:
    """Returns whether an axis is cropped although it keeps its size; None is unknown."""
    if node.str("coordinate_transformation_mode") != "tf_crop_and_resize":
        return False
    cropped, ends = list(factors(node).values()) or [None], node["roi"].const_or_none()
    if ends is not None:
        parts = zip(cropped, ends.reshape(2, -1).T.tolist(), strict=True)
        cropped = [factor for factor, part in parts if part != [0, 1]]
    answer = None if ends is None else True
    return answer if 1 in cropped else None if None in cropped else False


def _whole_only(node: Node, lines: list[ResampledAxis]) -> None:
    """Refuses a crop whose scales give a fractional size; specifications differ on its meaning."""
    if node.str("coordinate_transformation_mode") != "tf_crop_and_resize":
        return
    for line in lines:
        scale, old, new = (v.const_or_none() for v in (line.scale, line.old, line.new))
        if scale is not None and scale == 1:
            continue
        if scale is None or old is None or new is None or np.float64(scale) * old != new:
            raise Refusal(Why.AMBIGUOUS, "the scales of a crop may give a fractional size")


def all_axes(node: Node, op: Builder) -> dict[str, Value | None]:
    """Returns roi, scales and sizes with an entry for every axis, also if `axes` lists some."""
    x = node["X"]
    lists = given(node)
    if "axes" not in node.attributes:
        return lists
    named, rank = axes(node), x.rank
    count = len(named)
    here = [named.index(axis) if axis in named else None for axis in range(rank)]
    if lists["scales"] is not None:
        index = [count if i is None else i for i in here]
        lists["scales"] = _rearranged(op, lists["scales"], op.const([1], T.FLOAT), index)
    if lists["sizes"] is not None:
        index = [count + axis if i is None else i for axis, i in enumerate(here)]
        lists["sizes"] = _rearranged(op, lists["sizes"], shape_of(op, x), index)
    roi = lists["roi"]
    if roi is not None:
        starts = [2 * count if i is None else i for i in here]
        ends = [2 * count + 1 if i is None else count + i for i in here]
        lists["roi"] = _rearranged(op, roi, op.const([0, 1], like=roi), starts + ends)
    return lists


def axes(node: Node) -> list[int]:
    rank = node["X"].rank
    named = node.ints_or_none("axes") if "axes" in node.attributes else None
    return list(range(rank)) if named is None else [axis % rank for axis in named]


def _rearranged(op: Builder, values: Value, rest: Value, index: list[int]) -> Value:
    return op.Gather(op.Concat(values, rest, axis=0), op.const(index), axis=0)


def keeps_aspect(node: Node) -> bool:
    """Returns whether `keep_aspect_ratio_policy` gives several axes the same scale."""
    if "keep_aspect_ratio_policy" not in node.attributes or given(node)["sizes"] is None:
        return False
    return node.str("keep_aspect_ratio_policy") != "stretch" and len(axes(node)) != 1


def in_proportion(node: Node, op: Builder, sizes: Value, kind: int) -> list[ResampledAxis]:
    """Returns the axes with their common scale, which the rounded sizes only approximate."""
    x, wide = node["X"], T.DOUBLE
    olds = {axis: size_of(op, x, axis) for axis in sorted(axes(node))}
    widths = {axis: op.Cast(old, to=wide) for axis, old in olds.items()}
    ratios = [op.Cast(element(op, sizes, axis), to=wide) / width for axis, width in widths.items()]
    scale = ratios[0]
    least = node.str("keep_aspect_ratio_policy") == "not_larger"
    for ratio in ratios[1:]:
        scale = (op.Min if least else op.Max)(scale, ratio)
    lines = []
    for axis, width in widths.items():
        raised = scale * width + 0.5
        new = op.Cast(op.Floor(raised), to=T.INT64)
        lines.append(ResampledAxis(axis, olds[axis], new, op.Cast(scale, to=kind)))
    return lines


def smooth(node: Node, lists: Lists, x: Value) -> bool:
    """Returns whether the antialias filter may have an effect; it affects only axes that shrink."""
    if not antialias(node):
        return False
    constants = {name: value and value.const_or_none() for name, value in lists.items()}
    scales, sizes = constants["scales"], constants["sizes"]
    if scales is not None:
        return bool((scales < 1).any())
    if keeps_aspect(node) or sizes is None or x.shape_or_none is None:
        return True
    return bool((sizes < x.shape).any())


def antialias(node: Node) -> bool:
    return "antialias" in node.attributes and bool(node.int("antialias"))
