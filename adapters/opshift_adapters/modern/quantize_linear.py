# SPDX-License-Identifier: Apache-2.0
"""Finds QuantizeLinear in the nodes that replace it below opset 10, 13 or 21."""

from typing import Any

from opshift.adapter import Formula, Found, T, Term, dtype_of, modern, np

from opshift_adapters.modern.codes import is_scalar, length_of, limits_of, lying, reshaped

WHOLE = 3 * 2**22  # floats of this size have no fraction, so a sum rounds to the nearest even


def rounds(found: Found, start: float) -> bool:
    """Returns whether the sum rounds floats and the limits of Clip are those of an 8-bit type."""
    numbers = found.numbers
    if numbers["to"] not in (T.INT8, T.UINT8) or numbers["whole"] != WHOLE:
        return False
    low, high = T(numbers["to"]).element.limits
    in_float = found["x"].elem_type_or_none == T.FLOAT and is_scalar(found, "y_scale")
    return in_float and (numbers["low"], numbers["high"]) == (start + low, start + high)


def around_a_number(found: Found) -> dict[str, Any] | None:
    """Returns the zero point, the difference of both numbers, if the type holds it, else None."""
    numbers = found.numbers
    if not rounds(found, numbers["start"]):
        return None
    point, (low, high) = numbers["whole"] - numbers["start"], T(numbers["to"]).element.limits
    if not low <= point <= high or point != np.floor(point):
        return None
    return {"y_zero_point": np.array(point, dtype_of(numbers["to"]))}


def rounded(op: Formula, sum_: Term, start: str) -> Term:
    """Matches the clipped sum minus the number `start`, cast to a quantized type."""
    cut = op.Clip(sum_, min=op.attribute("low"), max=op.attribute("high"))
    return op.Cast(cut - op.number(start), to=op.attribute("to"))


# not derived: each number is a sum of the zero point, a limit and a constant
@modern("QuantizeLinear", since=10, when=around_a_number)
def quantize_around_a_number(op: Formula, x: Term, y_scale: Term, y_zero_point: Term) -> Term:
    """Matches x / scale + large number - (large number - zero point), for opsets below 10."""
    return rounded(op, x / y_scale + op.number("whole"), "start")


def around_a_point(found: Found) -> dict[str, Any] | None:
    """Returns {} (a match) if the zero point is a scalar of the result type, else None."""
    if found["y_zero_point"].elem_type_or_none != found.numbers["to"]:
        return None
    alone = is_scalar(found, "y_zero_point")
    return {} if alone and rounds(found, WHOLE) else None


# not derived: a formula has no types of inputs, which determine the limits
@modern("QuantizeLinear", since=10, when=around_a_point)
def quantize_around_a_point(op: Formula, x: Term, y_scale: Term, y_zero_point: Term) -> Term:
    """Matches x / scale + large number + zero point - large number, for opsets below 10."""
    moved = x / y_scale + op.number("whole") + op.cast(y_zero_point)
    return rounded(op, moved, "whole")


def around_zero(found: Found) -> dict[str, Any] | None:
    """Returns axis, scale and zero point if scales vary along one axis and codes are uint8."""
    told, shape = found.numbers, found["y_scale"].shape_or_none
    if (told["to"], told["low"], told["high"]) != (
        T.UINT8,
        *T.UINT8.element.limits,
    ) or shape is None:
        return None
    if shape == ():
        return {}
    constant = found["y_scale"].const_or_none()
    if any(size != 1 for size in shape[1:]) or (constant is None and len(shape) > 1):
        return None
    if length_of(found["x"], -len(shape)) != shape[0]:
        return None
    return {"axis": -len(shape), **({} if constant is None else {"y_scale": constant.ravel()})}


# not derived: exporters write it at any opset, the adapter only below 13 for axes
@modern("QuantizeLinear", since=13, when=around_zero)
def quantize_around_zero(op: Formula, x: Term, y_scale: Term) -> Term:
    """Matches Round(x / scale) clipped to the range of uint8, the form below opset 13."""
    cut = op.Clip(op.Round(x / y_scale), op.number("low"), op.number("high"))
    return op.Cast(cut, to=op.attribute("to"))


def quantizes_reshaped(found: Found) -> dict[str, Any] | None:
    """Returns the axis if the limits of Clip are those of the zero point's type, else None."""
    told, kind = found.numbers, found["y_zero_point"].elem_type_or_none
    fits = limits_of(kind) == (told["low"], told["high"]) and told["to"] == kind
    return reshaped(found, "y", kind) if fits else None


# not derived: the shapes of Reshape depend on rank and axis, and the limits on a type
@modern("QuantizeLinear", since=13, when=quantizes_reshaped)
def quantize_channels(op: Formula, x: Term, y_scale: Term, y_zero_point: Term) -> Term:
    """Matches Round(x / scale) + zero point with reshaped vectors, the form below opset 13."""
    scale = op.Reshape(y_scale, shape=op.attribute("goal"))
    zero = op.Reshape(op.Cast(y_zero_point, to=T.FLOAT), shape=op.attribute("zero_goal"))
    cut = op.Clip(op.Round(x / scale) + zero, op.number("low"), op.number("high"))
    return op.Cast(cut, to=op.attribute("to"))


def quantizes_lying(found: Found) -> dict[str, Any] | None:
    """Returns axis, scale and zero point if the limits of Clip are those of the result type."""
    numbers = found.numbers
    if limits_of(numbers["to"]) != (numbers["low"], numbers["high"]):
        return None
    return lying(found, "y", numbers["to"])


# not derived: constants have the shape after Reshape, so the inputs must be restored
@modern("QuantizeLinear", since=13, when=quantizes_lying)
def quantize_by_the_last_axes(op: Formula, x: Term, y_scale: Term, y_zero_point: Term) -> Term:
    """Matches Round(x / scale) + zero point with scales along an axis, the form below opset 13."""
    shifted = op.Round(x / y_scale) + op.cast(y_zero_point)
    return op.Cast(op.Clip(shifted, op.number("low"), op.number("high")), to=op.attribute("to"))


def quantizes(found: Found) -> dict[str, Any] | None:
    """Returns {} (a match) if scale and zero point are scalars and the limits fit, else None."""
    told = found.numbers
    limits = limits_of(found["y_zero_point"].elem_type_or_none)
    fits = limits == (told["low"], told["high"]) and is_scalar(found, "y_scale", "y_zero_point")
    return {} if fits and told["to"] == found["y_zero_point"].elem_type_or_none else None


# not derived: the adapters write it only for 16-bit codes or for opsets from 13 on
@modern("QuantizeLinear", since=11, when=quantizes)
def quantize_linear(op: Formula, x: Term, y_scale: Term, y_zero_point: Term) -> Term:
    """Matches Round(x / scale) + zero point with one scale, as for 16-bit codes below opset 21."""
    shifted = op.Round(x / y_scale) + op.Cast(y_zero_point, to=T.FLOAT)
    cut = op.Clip(shifted, op.number("low"), op.number("high"))
    return op.Cast(cut, to=op.attribute("to"))
