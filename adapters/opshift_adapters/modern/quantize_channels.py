# SPDX-License-Identifier: Apache-2.0
"""QuantizeLinear along an axis with reshaped scales: its form below opset 13."""

from typing import Any

from opshift.adapter import Formula, Found, T, Term, modern

from opshift_adapters.modern.codes import limits_of, reshaped


def quantizes_reshaped(found: Found) -> dict[str, Any] | None:
    """The axis, if the limits are those of the type of the zero points, else None."""
    told, kind = found.numbers, found["y_zero_point"].elem_type_or_none
    fits = limits_of(kind) == (told["low"], told["high"]) and told["to"] == kind
    return reshaped(found, "y", kind) if fits else None


@modern("QuantizeLinear", since=13, when=quantizes_reshaped)
def quantize_channels(op: Formula, x: Term, y_scale: Term, y_zero_point: Term) -> Term:
    """Round(x / scale) + zero point within the limits, with a scale for each channel."""
    scale = op.Reshape(y_scale, shape=op.attribute("goal"))
    zero = op.Reshape(op.Cast(y_zero_point, to=T.FLOAT), shape=op.attribute("zero_goal"))
    cut = op.Clip(op.Round(x / scale) + zero, op.number("low"), op.number("high"))
    return op.Cast(cut, to=op.attribute("to"))
