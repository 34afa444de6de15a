# SPDX-License-Identifier: Apache-2.0
"""Finds DequantizeLinear in the nodes that replace it below opset 10, 13 or 21."""

from typing import Any

from opshift.adapter import Formula, Found, T, Term, modern

from opshift_adapters._lib.kinds import SMALL_INTS
from opshift_adapters.modern.codes import is_scalar, lying, reshaped, whole_point

SMALL = (*SMALL_INTS, T.INT32)


def spread(op: Formula, part: Term) -> Term:
    """Matches a value whose elements are repeated, once for each element of their block."""
    apart = op.Unsqueeze(part, axes=op.attribute("behind"))
    repeated = op.Expand(apart, shape=op.attribute("repeats"))
    whole = op.Reshape(repeated, shape=op.attribute("goal"), allowzero=op.attribute("allowzero"))
    cut = op.Slice(whole, starts=[0], ends=op.attribute("ends"), axes=op.attribute("cut"))
    return op.either(whole, cut)


def blocks(found: Found) -> dict[str, Any] | None:
    """Returns the axis and the block size if all sizes are known and fit, else None."""
    told, x, parts = found.numbers, found["x"], [found["x_scale"]]
    parts += [found["x_zero_point"]] if "x_zero_point" in found else []
    shape, own = x.shape_or_none, parts[0].shape_or_none
    if x.elem_type_or_none not in SMALL or told["kind"] != T.FLOAT or shape is None or own is None:
        return None
    axis, size = block_of(told, len(shape))
    if axis is None or size < 2 or any(part.shape_or_none != own for part in parts):
        return None
    wide = [n * size if i == axis else n for i, n in enumerate(own)]
    cut = [*wide[:axis], shape[axis], *wide[axis + 1 :]]
    fits = wide == told["goal"] and cut == list(shape) and 0 <= wide[axis] - shape[axis] < size
    if told.get("ends", [wide[axis]]) != [shape[axis]] or told.get("cut", [axis]) != [axis]:
        return None
    point = whole_point(found) if len(parts) > 1 else {}
    return {"axis": axis, "block_size": size, **point} if fits and point is not None else None


def block_of(told: dict[str, Any], rank: int) -> tuple[int | None, int]:
    """Returns the only axis along which a tensor repeats, and the count; None for several axes."""
    behind, repeats = told["behind"], told["repeats"]
    if not behind or len(behind) != 1 or not repeats or len(repeats) != rank + 1:
        return None, 0
    place = behind[0] % (rank + 1)
    rest = [n for i, n in enumerate(repeats) if i != place]
    return (place - 1, repeats[place]) if place and all(n == 1 for n in rest) else (None, 0)


# not derived: axis and block size follow only from the shapes of several constants
@modern("DequantizeLinear", since=21, when=blocks)
def dequantize_blocks(op: Formula, x: Term, x_scale: Term, x_zero_point: Term) -> Term:
    """Matches (x - zero point) * scale with a scale for each block, the form below opset 21."""
    shifted = op.cast(x, "kind") - spread(op, op.cast(x_zero_point))
    return op.cast(shifted * op.cast(spread(op, x_scale), "kind"))


# not derived: axis and block size follow only from several constants
@modern("DequantizeLinear", since=21, when=blocks)
def dequantize_blocks_around_zero(op: Formula, x: Term, x_scale: Term) -> Term:
    """Matches x * scale with a scale for each block, the form below opset 21."""
    return op.cast(op.cast(x, "kind") * op.cast(spread(op, x_scale), "kind"))


def dequantizes_reshaped(found: Found) -> dict[str, Any] | None:
    """Returns the axis if the data have a quantized type, else None."""
    kind = found["x"].elem_type_or_none
    return reshaped(found, "x", kind) if kind in SMALL_INTS else None


# not derived: the shapes of Reshape depend on rank and axis
@modern("DequantizeLinear", since=13, when=dequantizes_reshaped)
def dequantize_channels(op: Formula, x: Term, x_scale: Term, x_zero_point: Term) -> Term:
    """Matches (x - zero point) * scale with reshaped vectors, the form below opset 13."""
    scale = op.Reshape(x_scale, shape=op.attribute("goal"))
    zero = op.Reshape(op.cast(x_zero_point), shape=op.attribute("zero_goal"))
    return (op.Cast(x, to=T.FLOAT) - zero) * scale


def dequantizes_lying(found: Found) -> dict[str, Any] | None:
    """Returns axis, scale and zero point if these constants fit the type of the data, else None."""
    return lying(found, "x", found["x"].elem_type_or_none)


# not derived: constants have the shape after Reshape, so inputs must be restored
@modern("DequantizeLinear", since=13, when=dequantizes_lying)
def dequantize_by_the_last_axes(op: Formula, x: Term, x_scale: Term, x_zero_point: Term) -> Term:
    """Matches (x - zero point) * scale with constants along an axis, the form below opset 13."""
    return (op.Cast(x, to=T.FLOAT) - op.cast(x_zero_point)) * x_scale


def dequantizes(found: Found) -> dict[str, Any] | None:
    """Returns the zero point if the data have a quantized type, and scale and zero are scalars."""
    is_code = found["x"].elem_type_or_none in SMALL_INTS
    return whole_point(found) if is_code and is_scalar(found, "x_scale", "x_zero_point") else None


# not derived: a constant zero point is a float in the nodes, so the input must be restored
@modern("DequantizeLinear", since=10, when=dequantizes)
def dequantize_linear(op: Formula, x: Term, x_scale: Term, x_zero_point: Term) -> Term:
    """Matches (x - zero point) * scale with a single scale, the form below opset 10."""
    return (op.Cast(x, to=T.FLOAT) - op.cast(x_zero_point)) * x_scale
