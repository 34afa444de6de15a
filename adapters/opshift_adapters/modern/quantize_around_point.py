# SPDX-License-Identifier: Apache-2.0
"""QuantizeLinear around a computed zero point: a sum with a large float, below opset 10."""

from typing import Any

from opshift.adapter import Formula, Found, Term, modern

from opshift_adapters.modern.codes import is_scalar
from opshift_adapters.modern.quantize_around_number import WHOLE, rounded, rounds


def around_a_point(found: Found) -> dict[str, Any] | None:
    """An empty dict if the zero point is a scalar of the type of the result, else None."""
    if found["y_zero_point"].elem_type_or_none != found.numbers["to"]:
        return None
    alone = is_scalar(found, "y_zero_point")
    return {} if alone and rounds(found, WHOLE) else None


@modern("QuantizeLinear", since=10, when=around_a_point)
def quantize_around_a_point(op: Formula, x: Term, y_scale: Term, y_zero_point: Term) -> Term:
    """x / scale + a number without fractions + the zero point, minus that number."""
    moved = x / y_scale + op.number("whole") + op.cast(y_zero_point)
    return rounded(op, moved, "whole")
