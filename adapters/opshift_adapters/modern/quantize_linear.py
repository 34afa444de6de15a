# SPDX-License-Identifier: Apache-2.0
"""QuantizeLinear of a whole tensor to 16 bits: its form below opset 21."""

from typing import Any

from opshift.adapter import Formula, Found, T, Term, modern

from opshift_adapters.modern.codes import is_scalar, limits_of


def quantizes(found: Found) -> dict[str, Any] | None:
    """An empty dict if scale and zero point are scalars and the limits fit the type, else None."""
    told = found.numbers
    limits = limits_of(found["y_zero_point"].elem_type_or_none)
    fits = limits == (told["low"], told["high"]) and is_scalar(found, "y_scale", "y_zero_point")
    return {} if fits and told["to"] == found["y_zero_point"].elem_type_or_none else None


@modern("QuantizeLinear", since=11, when=quantizes)
def quantize_linear(op: Formula, x: Term, y_scale: Term, y_zero_point: Term) -> Term:
    """Round(x / scale) + zero point, within the limits of the type."""
    shifted = op.Round(x / y_scale) + op.Cast(y_zero_point, to=T.FLOAT)
    cut = op.Clip(shifted, op.number("low"), op.number("high"))
    return op.Cast(cut, to=op.attribute("to"))
