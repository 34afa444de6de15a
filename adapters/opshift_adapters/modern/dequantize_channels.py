# SPDX-License-Identifier: Apache-2.0
"""DequantizeLinear along an axis with reshaped scales: its form below opset 13."""

from typing import Any

from opshift.adapter import Formula, Found, T, Term, example, modern

from opshift_adapters.modern.codes import CODES, reshaped

CHANNELS = (
    "(uint8[2,3,4] x, float[3] s, uint8[3] z) => (float[2,3,4] y) <int64[2] g = {-1, 1}>"
    " { rs = Reshape(s, g) f = Cast<to=1>(z) rz = Reshape(f, g) a = Cast<to=1>(x) d ="
    " Sub(a, rz) y = Mul(d, rs) }"
)


def dequantizes_reshaped(found: Found) -> dict[str, Any] | None:
    """The axis, if the data are codes, else None."""
    kind = found["x"].elem_type_or_none
    return reshaped(found, "x", kind) if kind in CODES else None


@modern("DequantizeLinear", since=13, when=dequantizes_reshaped)
@example("of channels", CHANNELS, gives="DequantizeLinear")
def dequantize_channels(op: Formula, x: Term, x_scale: Term, x_zero_point: Term) -> Term:
    """(x - zero point) * scale, with a zero point and a scale for each channel."""
    scale = op.Reshape(x_scale, shape=op.attribute("goal"))
    zero = op.Reshape(op.cast(x_zero_point), shape=op.attribute("zero_goal"))
    return (op.Cast(x, to=T.FLOAT) - zero) * scale
