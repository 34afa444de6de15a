# SPDX-License-Identifier: Apache-2.0
"""QuantizeLinear around a constant: below opset 10, a sum with a large float rounds to even."""

from typing import Any

from opshift.adapter import Formula, Found, T, Term, dtype_of, modern, np

from opshift_adapters.modern.codes import is_scalar

WHOLE = 3 * 2**22  # floats of this size have no fraction


def rounds(found: Found, start: float) -> bool:
    """Whether the sum rounds in float, and the limits are those of a type of 8 bits."""
    told = found.numbers
    if told["to"] not in (T.INT8, T.UINT8) or told["whole"] != WHOLE:
        return False
    low, high = T(told["to"]).element.limits
    in_float = found["x"].elem_type_or_none == T.FLOAT and is_scalar(found, "y_scale")
    return in_float and (told["low"], told["high"]) == (start + low, start + high)


def around_a_number(found: Found) -> dict[str, Any] | None:
    """The zero point, which is the distance between the sums, if it fits the type, else None."""
    told = found.numbers
    if not rounds(found, told["start"]):
        return None
    point, (low, high) = told["whole"] - told["start"], T(told["to"]).element.limits
    if not low <= point <= high or point != np.floor(point):
        return None
    return {"y_zero_point": np.array(point, dtype_of(told["to"]))}


def rounded(op: Formula, sum_: Term, start: str) -> Term:
    """The sum within limits, minus the number that it started from, as codes."""
    cut = op.Clip(sum_, min=op.attribute("low"), max=op.attribute("high"))
    return op.Cast(cut - op.number(start), to=op.attribute("to"))


@modern("QuantizeLinear", since=10, when=around_a_number)
def quantize_around_a_number(op: Formula, x: Term, y_scale: Term, y_zero_point: Term) -> Term:
    """x / scale + a number without fractions, minus that number less the zero point."""
    return rounded(op, x / y_scale + op.number("whole"), "start")
