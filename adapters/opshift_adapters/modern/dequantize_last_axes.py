# SPDX-License-Identifier: Apache-2.0
"""DequantizeLinear with scales that lie along an axis already, as constants below opset 13."""

from typing import Any

from opshift.adapter import Formula, Found, T, Term, modern

from opshift_adapters.modern.codes import lying


def dequantizes_lying(found: Found) -> dict[str, Any] | None:
    """The axis and the constants, if they fit the type of the data, else None."""
    return lying(found, "x", found["x"].elem_type_or_none)


@modern("DequantizeLinear", since=13, when=dequantizes_lying)
def dequantize_by_the_last_axes(op: Formula, x: Term, x_scale: Term, x_zero_point: Term) -> Term:
    """(x - zero point) * scale, whose shapes already broadcast along the channels."""
    return (op.Cast(x, to=T.FLOAT) - op.cast(x_zero_point)) * x_scale
