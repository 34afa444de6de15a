# SPDX-License-Identifier: Apache-2.0
"""DequantizeLinear along an axis with reshaped scales: its form below opset 13."""

from typing import Any

from opshift.adapter import Formula, Found, T, Term, modern

from opshift_adapters.modern.codes import CODES, reshaped


def dequantizes_reshaped(found: Found) -> dict[str, Any] | None:
    """The axis, if the data are codes, else None."""
    kind = found["x"].elem_type_or_none
    return reshaped(found, "x", kind) if kind in CODES else None


@modern("DequantizeLinear", since=13, when=dequantizes_reshaped)
def dequantize_channels(op: Formula, x: Term, x_scale: Term, x_zero_point: Term) -> Term:
    """(x - zero point) * scale, with a zero point and a scale for each channel."""
    scale = op.Reshape(x_scale, shape=op.attribute("goal"))
    zero = op.Reshape(op.cast(x_zero_point), shape=op.attribute("zero_goal"))
    return (op.Cast(x, to=T.FLOAT) - zero) * scale
