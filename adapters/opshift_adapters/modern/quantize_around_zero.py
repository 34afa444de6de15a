# SPDX-License-Identifier: Apache-2.0
"""QuantizeLinear to uint8 without zero points: the form below opset 13."""

from typing import Any

from opshift.adapter import Formula, Found, T, Term, example, modern

from opshift_adapters.modern.codes import length_of
from opshift_adapters.modern.quantize_last_axes import ALONG_LAST

AROUND_ZERO = (
    ALONG_LAST.replace(", uint8[3] z", "")
    .replace(" f = Cast<to=1>(z) a = Add(r, f)", "")
    .replace("Clip(a", "Clip(r")
)


def around_zero(found: Found) -> dict[str, Any] | None:
    """The axis and the constants, if scales lie along an axis and bytes around 0 result."""
    told, shape = found.numbers, found["y_scale"].shape_or_none
    if (told["to"], told["low"], told["high"]) != (
        T.UINT8,
        *T.UINT8.element.limits,
    ) or shape is None:
        return None
    if shape == ():
        return {}
    known = found["y_scale"].const_or_none()
    if any(size != 1 for size in shape[1:]) or (known is None and len(shape) > 1):
        return None
    if length_of(found["x"], -len(shape)) != shape[0]:
        return None
    return {"axis": -len(shape), **({} if known is None else {"y_scale": known.ravel()})}


@modern("QuantizeLinear", since=13, when=around_zero)
@example("of the last axis, no zero points", AROUND_ZERO, gives="QuantizeLinear")
def quantize_around_zero(op: Formula, x: Term, y_scale: Term) -> Term:
    """Round(x / scale) within the limits of unsigned bytes."""
    cut = op.Clip(op.Round(x / y_scale), op.number("low"), op.number("high"))
    return op.Cast(cut, to=op.attribute("to"))
