# SPDX-License-Identifier: Apache-2.0
"""DequantizeLinear of a whole tensor: its form below opset 10."""

from typing import Any

from opshift.adapter import Formula, Found, T, Term, modern

from opshift_adapters.modern.codes import CODES, is_scalar, whole_point


def dequantizes(found: Found) -> dict[str, Any] | None:
    """The zero point, if the data has few bits and the scale and the zero point are scalars."""
    if found["x"].elem_type_or_none not in CODES or not is_scalar(found, "x_scale", "x_zero_point"):
        return None
    return whole_point(found)


@modern("DequantizeLinear", since=10, when=dequantizes)
def dequantize_linear(op: Formula, x: Term, x_scale: Term, x_zero_point: Term) -> Term:
    """(x - zero point) * scale."""
    return (op.Cast(x, to=T.FLOAT) - op.cast(x_zero_point)) * x_scale
