# SPDX-License-Identifier: Apache-2.0
"""QuantizeLinear and DequantizeLinear with a scale for each channel, from their arithmetic."""

from typing import Any

from opshift.adapter import Formula, Found, T, Term, Value, dtype_of, example, modern, np

from opshift_adapters.modern.quantize import LIMITS

CHANNELS = "(uint8[2,3,4] x, float[3] s, uint8[3] z) => (float[2,3,4] y) <int64[2] g = {-1, 1}> { rs = Reshape(s, g) f = Cast<to=1>(z) rz = Reshape(f, g) a = Cast<to=1>(x) d = Sub(a, rz) y = Mul(d, rs) }"
FIXED = "(int8[2,3,2] x) => (float[2,3,2] y) <float[3,1] s = {0.5, 1.5, 2.5}, float[3,1] z = {0, -128, 127}> { a = Cast<to=1>(x) d = Sub(a, z) y = Mul(d, s) }"
LAST = "(uint8[2,3] x, float[3] s, uint8[3] z) => (float[2,3] y) { a = Cast<to=1>(x) f = Cast<to=1>(z) d = Sub(a, f) y = Mul(d, s) }"
AS_WRITTEN = "Reshape Cast Reshape Cast Sub Mul"


def length_of(x: Value, axis: int) -> int | None:
    """One dimension of a value if it is known, else None."""
    dims = x.dims_or_none
    size = dims[axis] if dims is not None and -len(dims) <= axis < len(dims) else None
    return size if isinstance(size, int) else None


def reshaped(found: Found, x: str, scale: str, zero: str, kind: int | None) -> dict[str, Any] | None:
    """The axis, if scale and zero point are vectors reshaped to lie along it, else None."""
    told, parts = found.numbers, (found[scale], found[zero])
    goal = told["goal"]
    if goal != told["zero_goal"] or goal[:1] != [-1] or any(size != 1 for size in goal[1:]):
        return None
    length = length_of(found[x], -len(goal))
    if length is None or any(part.shape_or_none != (length,) for part in parts):
        return None
    return {"axis": -len(goal)} if parts[1].elem_type_or_none == kind else None


def lying(found: Found, x: str, scale: str, zero: str, kind: int | None) -> dict[str, Any] | None:
    """The axis of constants that lie along it already, or of vectors along the last axis."""
    shape = found[scale].shape_or_none
    if not shape or found[zero].shape_or_none != shape or any(size != 1 for size in shape[1:]):
        return None
    if length_of(found[x], -len(shape)) != shape[0] or kind not in LIMITS:
        return None
    told: dict[str, Any] = {"axis": -len(shape)}
    for name, part in ((scale, found[scale]), (zero, found[zero])):
        known = part.const_or_none()
        if known is None and len(shape) > 1:
            return None
        if known is not None:
            told[name] = known.ravel()
    if zero not in told:
        return told if found[zero].elem_type_or_none == kind else None
    point, (low, high) = told[zero], LIMITS[kind]
    if not np.all((point == np.floor(point)) & (low <= point) & (point <= high)):
        return None
    return {**told, zero: point.astype(dtype_of(kind))}


def dequantizes_reshaped(found: Found) -> dict[str, Any] | None:
    kind = found["x"].elem_type_or_none
    return reshaped(found, "x", "x_scale", "x_zero_point", kind) if kind in LIMITS else None


def dequantizes_lying(found: Found) -> dict[str, Any] | None:
    return lying(found, "x", "x_scale", "x_zero_point", found["x"].elem_type_or_none)


def dequantized(op: Formula, x: Term, scale: Term, zero: Term) -> Term:
    """(x - zero point) * scale."""
    return (op.Cast(x, to=T.FLOAT) - zero) * scale


@modern("DequantizeLinear", since=13, when=dequantizes_reshaped)
@example("of channels", CHANNELS, gives="DequantizeLinear")
@example("a channel that is stretched", CHANNELS.replace("uint8[2,3,4] x", "uint8[2,1,4] x"), gives=AS_WRITTEN)
@example("other channels", CHANNELS.replace("{-1, 1}", "{3, 1}"), gives=AS_WRITTEN)
@example("a zero point of another type", CHANNELS.replace("uint8[3] z", "int16[3] z"), gives=AS_WRITTEN, inputs={"z": [0, 3, 5]})
@example("16 bits", CHANNELS.replace("uint8", "int16"), gives=AS_WRITTEN)
def dequantize_channels(op: Formula, x: Term, x_scale: Term, x_zero_point: Term) -> Term:
    """(x - zero point) * scale, with a zero point and a scale for each channel."""
    scale = op.Reshape(x_scale, shape=op.attribute("goal"))
    zero = op.Reshape(op.cast(x_zero_point), shape=op.attribute("zero_goal"))
    return dequantized(op, x, scale, zero)


@modern("DequantizeLinear", since=13, when=dequantizes_lying)
@example("of channels with constants", FIXED, gives="DequantizeLinear")
@example("of the last axis", LAST, gives="DequantizeLinear")
@example("computed numbers in another shape", FIXED.replace("(int8[2,3,2] x)", "(int8[2,3,2] x, float[3,1] s)").replace("float[3,1] s = {0.5, 1.5, 2.5}, ", ""), gives="Cast Sub Mul")
@example("a zero point between two numbers", FIXED.replace("-128", "0.5"), gives="Cast Sub Mul")
@example("a table", FIXED.replace("float[3,1] s = {0.5, 1.5, 2.5}, float[3,1] z = {0, -128, 127}", "float[3,2] s = {1, 2, 3, 4, 5, 6}, float[3,2] z = {1, 2, 3, 4, 5, 6}"), gives="Cast Sub Mul")
@example("a channel that is stretched", FIXED.replace("int8[2,3,2] x", "int8[2,1,2] x"), gives="Cast Sub Mul")
@example("zero points of another type", LAST.replace("uint8[3] z", "int16[3] z"), gives="Cast Cast Sub Mul", inputs={"z": [0, 3, 5]})
def dequantize_by_the_last_axes(op: Formula, x: Term, x_scale: Term, x_zero_point: Term) -> Term:
    """(x - zero point) * scale, whose shapes already broadcast along the channels."""
    return dequantized(op, x, x_scale, op.cast(x_zero_point))


ROUNDED = "(float[2,3,4] x, float[3] s, uint8[3] z) => (uint8[2,3,4] y) <int64[2] g = {-1, 1}, float l = {0}, float h = {255}> { rs = Reshape(s, g) q = Div(x, rs) r = Round(q) f = Cast<to=1>(z) rz = Reshape(f, g) a = Add(r, rz) c = Clip(a, l, h) "


def quantizes_reshaped(found: Found) -> dict[str, Any] | None:
    """The axis, if the limits are those of the type of the zero points, else None."""
    told, kind = found.numbers, found["y_zero_point"].elem_type_or_none
    fits = LIMITS.get(kind or 0) == (told["low"], told["high"]) and told["to"] == kind
    return reshaped(found, "x", "y_scale", "y_zero_point", kind) if fits else None


@modern("QuantizeLinear", since=13, when=quantizes_reshaped)
@example("of channels", ROUNDED + "y = Cast<to=2>(c) }", gives="QuantizeLinear")
@example("other limits", ROUNDED.replace("255", "127") + "y = Cast<to=2>(c) }", gives="Reshape Div Round Cast Reshape Add Clip Cast")
@example("a channel that is stretched", ROUNDED.replace("float[2,3,4] x", "float[2,1,4] x") + "y = Cast<to=2>(c) }", gives="Reshape Div Round Cast Reshape Add Clip Cast")
def quantize_channels(op: Formula, x: Term, y_scale: Term, y_zero_point: Term) -> Term:
    """Round(x / scale) + zero point within the limits, with a scale for each channel."""
    scale = op.Reshape(y_scale, shape=op.attribute("goal"))
    zero = op.Reshape(op.Cast(y_zero_point, to=T.FLOAT), shape=op.attribute("zero_goal"))
    cut = op.Clip(op.Round(x / scale) + zero, op.number("low"), op.number("high"))
    return op.Cast(cut, to=op.attribute("to"))


STRETCHED = "(float[2,3,2] x) => (int8[2,3,2] y) <float[3,1] s = {0.5, 1.5, 2.5}, float[3,1] z = {0, -128, 127}, float l = {-128}, float h = {127}> { q = Div(x, s) r = Round(q) a = Add(r, z) c = Clip(a, l, h) y = Cast<to=3>(c) }"
ALONG_LAST = "(float[2,3] x, float[3] s, uint8[3] z) => (uint8[2,3] y) <float l = {0}, float h = {255}> { q = Div(x, s) r = Round(q) f = Cast<to=1>(z) a = Add(r, f) c = Clip(a, l, h) y = Cast<to=2>(c) }"


def quantizes_lying(found: Found) -> dict[str, Any] | None:
    """The axis and the constants, if the limits are those of the type of the result, else None."""
    told = found.numbers
    if LIMITS.get(told["to"]) != (told["low"], told["high"]):
        return None
    return lying(found, "x", "y_scale", "y_zero_point", told["to"])


@modern("QuantizeLinear", since=13, when=quantizes_lying)
@example("of channels with constants", STRETCHED, gives="QuantizeLinear")
@example("of the last axis", ALONG_LAST, gives="QuantizeLinear")
@example("other limits", STRETCHED.replace("{127}>", "{126}>"), gives="Div Round Add Clip Cast")
@example("a zero point between two numbers", STRETCHED.replace("{0, -128,", "{0, -12.5,"), gives="Div Round Add Clip Cast")
@example("a channel that is stretched", STRETCHED.replace("float[2,3,2] x", "float[2,1,2] x"), gives="Div Round Add Clip Cast")
@example("zero points of another type", ALONG_LAST.replace("uint8[3] z", "int16[3] z"), gives="Div Round Cast Add Clip Cast", inputs={"z": [0, 3, 5]})
def quantize_by_the_last_axes(op: Formula, x: Term, y_scale: Term, y_zero_point: Term) -> Term:
    """Round(x / scale) + zero point within limits, whose shapes already broadcast."""
    shifted = op.Round(x / y_scale) + op.cast(y_zero_point)
    return op.Cast(op.Clip(shifted, op.number("low"), op.number("high")), to=op.attribute("to"))


AROUND_ZERO = ALONG_LAST.replace(", uint8[3] z", "").replace(" f = Cast<to=1>(z) a = Add(r, f)", "").replace("Clip(a", "Clip(r")


def around_zero(found: Found) -> dict[str, Any] | None:
    """The axis and the constants, if scales lie along an axis and bytes around 0 result."""
    told, shape = found.numbers, found["y_scale"].shape_or_none
    if (told["to"], told["low"], told["high"]) != (T.UINT8, *LIMITS[T.UINT8]) or shape is None:
        return None
    if shape == ():
        return {}
    known = found["y_scale"].const_or_none()
    if any(size != 1 for size in shape[1:]) or (known is None and len(shape) > 1):
        return None
    if length_of(found["x"], -len(shape)) != shape[0]:
        return None
    return {"axis": -len(shape), **({} if known is None else {"y_scale": known.ravel()})}


@modern("QuantizeLinear", since=13, when=around_zero)
@example("of the last axis, no zero points", AROUND_ZERO, gives="QuantizeLinear")
@example("of a tensor, no zero point", AROUND_ZERO.replace("float[3] s", "float s"), gives="QuantizeLinear")
@example("of constant channels, no zero points", STRETCHED.replace("a = Add(r, z) c = Clip(a", "c = Clip(r").replace("int8", "uint8").replace("to=3", "to=2").replace("{-128}", "{0}").replace("{127}>", "{255}>"), gives="QuantizeLinear")
@example("signed", AROUND_ZERO.replace("uint8", "int8").replace("to=2", "to=3").replace("{0}", "{-128}").replace("{255}", "{127}"), gives="Div Round Clip Cast")
@example("computed scales in another shape", AROUND_ZERO.replace("float[3] s", "float[2,1] s"), gives="Div Round Clip Cast")
@example("a table of scales", STRETCHED.replace("a = Add(r, z) c = Clip(a", "c = Clip(r").replace("int8", "uint8").replace("to=3", "to=2").replace("{-128}", "{0}").replace("{127}>", "{255}>").replace("float[3,1] s = {0.5, 1.5, 2.5}", "float[3,2] s = {1, 2, 3, 4, 5, 6}"), gives="Div Round Clip Cast")
@example("channels that are stretched", AROUND_ZERO.replace("float[2,3] x", "float[2,1] x"), gives="Div Round Clip Cast")
def quantize_around_zero(op: Formula, x: Term, y_scale: Term) -> Term:
    """Round(x / scale) within the limits of unsigned bytes."""
    cut = op.Clip(op.Round(x / y_scale), op.number("low"), op.number("high"))
    return op.Cast(cut, to=op.attribute("to"))
