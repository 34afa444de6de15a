# SPDX-License-Identifier: Apache-2.0
"""QuantizeLinear with scales that lie along an axis already, as constants below opset 13."""

from typing import Any

from opshift.adapter import Formula, Found, Term, modern

from opshift_adapters.modern.codes import limits_of, lying

ALONG_LAST = (
    "(float[2,3] x, float[3] s, uint8[3] z) => (uint8[2,3] y) <float l = {0}, float h ="
    " {255}> { q = Div(x, s) r = Round(q) f = Cast<to=1>(z) a = Add(r, f) c = Clip(a, l,"
    " h) y = Cast<to=2>(c) }"
)


def quantizes_lying(found: Found) -> dict[str, Any] | None:
    """The axis and the constants, if the limits are those of the type of the result, else None."""
    told = found.numbers
    if limits_of(told["to"]) != (told["low"], told["high"]):
        return None
    return lying(found, "y", told["to"])


@modern("QuantizeLinear", since=13, when=quantizes_lying)
def quantize_by_the_last_axes(op: Formula, x: Term, y_scale: Term, y_zero_point: Term) -> Term:
    """Round(x / scale) + zero point within limits, whose shapes already broadcast."""
    shifted = op.Round(x / y_scale) + op.cast(y_zero_point)
    return op.Cast(op.Clip(shifted, op.number("low"), op.number("high")), to=op.attribute("to"))
