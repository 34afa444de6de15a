# SPDX-License-Identifier: Apache-2.0
"""QuantizeLinear of a whole tensor to 16 bits: its form below opset 21."""

from typing import Any

from opshift.adapter import Formula, Found, T, Term, example, modern

from opshift_adapters.modern.codes import is_scalar, limits_of

ROUNDED = (
    "(float[2,3] x, float s, uint8 z) => (uint8[2,3] y) <float l = {0}, float h = {255}>"
    " { q = Div(x, s) r = Round(q) b = Cast<to=1>(z) a = Add(r, b) c = Clip(a, l, h) "
)


def quantizes(found: Found) -> dict[str, Any] | None:
    """An empty dict if scale and zero point are scalars and the limits fit the type, else None."""
    told = found.numbers
    limits = limits_of(found["y_zero_point"].elem_type_or_none)
    fits = limits == (told["low"], told["high"]) and is_scalar(found, "y_scale", "y_zero_point")
    return {} if fits and told["to"] == found["y_zero_point"].elem_type_or_none else None


@modern("QuantizeLinear", since=11, when=quantizes)
@example("of a whole tensor", ROUNDED + "y = Cast<to=2>(c) }", gives="QuantizeLinear")
def quantize_linear(op: Formula, x: Term, y_scale: Term, y_zero_point: Term) -> Term:
    """Round(x / scale) + zero point, within the limits of the type."""
    shifted = op.Round(x / y_scale) + op.Cast(y_zero_point, to=T.FLOAT)
    cut = op.Clip(shifted, op.number("low"), op.number("high"))
    return op.Cast(cut, to=op.attribute("to"))
