# SPDX-License-Identifier: Apache-2.0
"""QuantizeLinear and DequantizeLinear, of whole tensors and of blocks, from their arithmetic."""

from typing import Any

from opshift.adapter import Formula, Found, T, Term, dtype_of, example, modern, np

LIMITS: dict[int, tuple[int, int]] = {
    T.INT8: (-128, 127), T.UINT8: (0, 255), T.INT16: (-32768, 32767), T.UINT16: (0, 65535),
}  # fmt: skip
BYTES = "(uint8[2,3] x, float s, uint8 z) => (float[2,3] y) "


def is_scalar(found: Found, *names: str) -> bool:
    """Whether these inputs are known to have one element and no axes."""
    return all(found[name].shape_or_none == () for name in names)


def whole_point(found: Found) -> dict[str, Any] | None:
    """The zero point in the type of the data, if it has that type or is a constant that fits."""
    x, zero = found["x"], found["x_zero_point"]
    if zero.elem_type_or_none == x.elem_type_or_none:
        return {}
    low, high = LIMITS.get(x.elem_type_or_none or 0, (0, -1))
    known = zero.const_or_none()
    if known is None or not np.all((known == np.floor(known)) & (low <= known) & (known <= high)):
        return None
    return {"x_zero_point": known.astype(dtype_of(x.elem_type))}


def dequantizes(found: Found) -> dict[str, Any] | None:
    """The zero point, if the data has few bits and the scale and the zero point are scalars."""
    if found["x"].elem_type_or_none not in LIMITS or not is_scalar(found, "x_scale", "x_zero_point"):
        return None
    return whole_point(found)


@modern("DequantizeLinear", since=10, when=dequantizes)
@example("of a whole tensor", BYTES + "{ a = Cast<to=1>(x) b = Cast<to=1>(z) d = Sub(a, b) y = Mul(d, s) }", gives="DequantizeLinear")
@example("a constant zero point", "(int8[2,3] x, float s) => (float[2,3] y) <float z = {-7}> { a = Cast<to=1>(x) d = Sub(a, z) y = Mul(s, d) }", gives="DequantizeLinear")
@example("a zero point between two numbers", "(int8[2,3] x, float s) => (float[2,3] y) <float z = {0.5}> { a = Cast<to=1>(x) d = Sub(a, z) y = Mul(s, d) }", gives="Cast Sub Mul")
@example("a zero point of another type", "(int8[2,3] x, float s) => (float[2,3] y) <float z = {128}> { a = Cast<to=1>(x) d = Sub(a, z) y = Mul(s, d) }", gives="Cast Sub Mul")
@example("a scale for each column", BYTES.replace("float s", "float[3] s") + "{ a = Cast<to=1>(x) b = Cast<to=1>(z) d = Sub(a, b) y = Mul(d, s) }", gives="Cast Cast Sub Mul")
@example("a difference of bytes", BYTES + "{ d = Sub(x, z) a = Cast<to=1>(d) y = Mul(a, s) }", gives="Sub Cast Mul", imports={"": 14})
@example("16 bits", BYTES.replace("uint8", "uint16") + "{ a = Cast<to=1>(x) b = Cast<to=1>(z) d = Sub(a, b) y = Mul(d, s) }", gives="DequantizeLinear", imports={"": 21})
@example("16 bits too early", BYTES.replace("uint8", "uint16") + "{ a = Cast<to=1>(x) b = Cast<to=1>(z) d = Sub(a, b) y = Mul(d, s) }", gives="Cast Cast Sub Mul", imports={"": 20})
def dequantize_linear(op: Formula, x: Term, x_scale: Term, x_zero_point: Term) -> Term:
    """(x - zero point) * scale."""
    return (op.Cast(x, to=T.FLOAT) - op.cast(x_zero_point)) * x_scale


SMALL = (T.INT8, T.UINT8, T.INT16, T.UINT16, T.INT32)
BLOCKS = "(uint8[3,4] x, float[3,2] s, uint8[3,2] z) => (float[3,4] y) <int64[1] n = {2}, int64[3] r = {1, 1, 2}, int64[2] g = {3, 4}> { us = Unsqueeze(s, n) es = Expand(us, r) fs = Reshape(es, g) zf = Cast<to=1>(z) uz = Unsqueeze(zf, n) ez = Expand(uz, r) fz = Reshape(ez, g) a = Cast<to=1>(x) d = Sub(a, fz) y = Mul(d, fs) }"

CUT = "(uint8[3,3] x, float[3,2] s, uint8[3,2] z) => (float[3,3] y) <int64[1] n = {2}, int64[3] r = {1, 1, 2}, int64[2] g = {3, 4}, int64[1] l = {0}, int64[1] h = {3}, int64[1] o = {1}> { us = Unsqueeze(s, n) es = Expand(us, r) ws = Reshape(es, g) fs = Slice(ws, l, h, o) zf = Cast<to=1>(z) uz = Unsqueeze(zf, n) ez = Expand(uz, r) wz = Reshape(ez, g) fz = Slice(wz, l, h, o) a = Cast<to=1>(x) d = Sub(a, fz) y = Mul(d, fs) }"


def spread(op: Formula, part: Term) -> Term:
    """Each element repeated along its block; the last block may be cut."""
    apart = op.Unsqueeze(part, axes=op.attribute("behind"))
    repeated = op.Expand(apart, shape=op.attribute("repeats"))
    whole = op.Reshape(repeated, shape=op.attribute("goal"), allowzero=op.attribute("allowzero"))
    cut = op.Slice(whole, starts=[0], ends=op.attribute("ends"), axes=op.attribute("cut"))
    return op.either(whole, cut)


def blocks(found: Found) -> dict[str, Any] | None:
    """The axis and the size of the blocks, if all sizes are known to fit, else None."""
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
    """The axis along which a tensor is repeated, and how often; None if it is not one axis."""
    behind, repeats = told["behind"], told["repeats"]
    if not behind or len(behind) != 1 or not repeats or len(repeats) != rank + 1:
        return None, 0
    place = behind[0] % (rank + 1)
    rest = [n for i, n in enumerate(repeats) if i != place]
    return (place - 1, repeats[place]) if place and all(n == 1 for n in rest) else (None, 0)


@modern("DequantizeLinear", since=21, when=blocks)
@example("blocks", BLOCKS, gives="DequantizeLinear")
@example("blocks that do not fit", BLOCKS.replace("{3, 4}>", "{2, 6}>").replace("[3,4] x", "[2,6] x").replace("[3,4] y", "[2,6] y"), gives="Unsqueeze Expand Reshape Cast Unsqueeze Expand Reshape Cast Sub Mul")
@example("two axes are repeated", BLOCKS.replace("{1, 1, 2}", "{3, 1, 2}").replace("float[3,2] s, uint8[3,2] z", "float[1,2] s, uint8[1,2] z"), gives="Unsqueeze Expand Reshape Cast Unsqueeze Expand Reshape Cast Sub Mul")
@example("computed repeats", BLOCKS.replace("uint8[3,2] z)", "uint8[3,2] z, int64[3] r)").replace(" int64[3] r = {1, 1, 2},", ""), gives="Unsqueeze Expand Reshape Cast Unsqueeze Expand Reshape Cast Sub Mul", inputs={"r": [1, 1, 2]})
@example("the last block is cut", CUT, gives="DequantizeLinear")
@example("another axis is cut", CUT.replace("o = {1}", "o = {0}").replace("h = {3}", "h = {2}").replace("[3,3] x", "[2,4] x").replace("[3,3] y", "[2,4] y"), gives="Unsqueeze Expand Reshape Slice Cast Unsqueeze Expand Reshape Slice Cast Sub Mul")
def dequantize_blocks(op: Formula, x: Term, x_scale: Term, x_zero_point: Term) -> Term:
    """(x - zero point) * scale, with a zero point and a scale for each block."""
    shifted = op.cast(x, "kind") - spread(op, op.cast(x_zero_point))
    return op.cast(shifted * op.cast(spread(op, x_scale), "kind"))


@modern("DequantizeLinear", since=21, when=blocks)
@example("blocks without a zero point", BLOCKS.replace(", uint8[3,2] z", "").replace(" zf = Cast<to=1>(z) uz = Unsqueeze(zf, n) ez = Expand(uz, r) fz = Reshape(ez, g)", "").replace("d = Sub(a, fz) y = Mul(d, fs)", "y = Mul(a, fs)"), gives="DequantizeLinear")
def dequantize_blocks_around_zero(op: Formula, x: Term, x_scale: Term) -> Term:
    """x * scale, with a scale for each block."""
    return op.cast(op.cast(x, "kind") * op.cast(spread(op, x_scale), "kind"))


def quantizes(found: Found) -> dict[str, Any] | None:
    """An empty dict if scale and zero point are scalars and the limits fit the type, else None."""
    told = found.numbers
    limits = LIMITS.get(found["y_zero_point"].elem_type_or_none or 0)
    fits = limits == (told["low"], told["high"]) and is_scalar(found, "y_scale", "y_zero_point")
    return {} if fits and told["to"] == found["y_zero_point"].elem_type_or_none else None


ROUNDED = "(float[2,3] x, float s, uint8 z) => (uint8[2,3] y) <float l = {0}, float h = {255}> { q = Div(x, s) r = Round(q) b = Cast<to=1>(z) a = Add(r, b) c = Clip(a, l, h) "


@modern("QuantizeLinear", since=11, when=quantizes)
@example("of a whole tensor", ROUNDED + "y = Cast<to=2>(c) }", gives="QuantizeLinear")
@example("other limits", ROUNDED.replace("255", "127") + "y = Cast<to=2>(c) }", gives="Div Round Cast Add Clip Cast")
@example("another type", ROUNDED.replace("(uint8[2,3] y)", "(int8[2,3] y)") + "y = Cast<to=3>(c) }", gives="Div Round Cast Add Clip Cast")
@example("16 bits", ROUNDED.replace("uint8", "int16").replace("{0}", "{-32768}").replace("255", "32767") + "y = Cast<to=5>(c) }", gives="QuantizeLinear", imports={"": 21})
@example("16 bits too early", ROUNDED.replace("uint8", "int16").replace("{0}", "{-32768}").replace("255", "32767") + "y = Cast<to=5>(c) }", gives="Div Round Cast Add Clip Cast", imports={"": 20})
def quantize_linear(op: Formula, x: Term, y_scale: Term, y_zero_point: Term) -> Term:
    """Round(x / scale) + zero point, within the limits of the type."""
    shifted = op.Round(x / y_scale) + op.Cast(y_zero_point, to=T.FLOAT)
    cut = op.Clip(shifted, op.number("low"), op.number("high"))
    return op.Cast(cut, to=op.attribute("to"))
