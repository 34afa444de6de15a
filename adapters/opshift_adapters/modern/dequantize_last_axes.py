# SPDX-License-Identifier: Apache-2.0
"""DequantizeLinear with scales that lie along an axis already, as constants below opset 13."""

from typing import Any

from opshift.adapter import Formula, Found, T, Term, example, modern

from opshift_adapters.modern.codes import lying

FIXED = (
    "(int8[2,3,2] x) => (float[2,3,2] y) <float[3,1] s = {0.5, 1.5, 2.5}, float[3,1] z ="
    " {0, -128, 127}> { a = Cast<to=1>(x) d = Sub(a, z) y = Mul(d, s) }"
)


def dequantizes_lying(found: Found) -> dict[str, Any] | None:
    """The axis and the constants, if they fit the type of the data, else None."""
    return lying(found, "x", found["x"].elem_type_or_none)


@modern("DequantizeLinear", since=13, when=dequantizes_lying)
@example("of channels with constants", FIXED, gives="DequantizeLinear")
def dequantize_by_the_last_axes(op: Formula, x: Term, x_scale: Term, x_zero_point: Term) -> Term:
    """(x - zero point) * scale, whose shapes already broadcast along the channels."""
    return (op.Cast(x, to=T.FLOAT) - op.cast(x_zero_point)) * x_scale
