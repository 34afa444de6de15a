# SPDX-License-Identifier: Apache-2.0
"""Conditions on codes, scales and zero points in the formulas of quantized operators."""

from typing import Any

from opshift.adapter import Array, Found, T, Value, dtype_of, np

from opshift_adapters._lib.kinds import SMALL_INTS


def limits_of(kind: int | None) -> tuple[int, int] | None:
    """Returns the smallest and the largest code of a type, or None for other types."""
    return T(kind).element.limits if kind in SMALL_INTS else None


def is_scalar(found: Found, *names: str) -> bool:
    """Returns whether these inputs are known to be scalars."""
    return all(found[name].shape_or_none == () for name in names)


def whole_point(found: Found) -> dict[str, Any] | None:
    """Returns {} or the zero point cast to the type of the data; None if the cast loses digits."""
    x, zero = found["x"], found["x_zero_point"]
    if zero.elem_type_or_none == x.elem_type_or_none:
        return {}
    point = as_codes(zero.const_or_none(), x.elem_type_or_none)
    return None if point is None else {"x_zero_point": point}


def as_codes(known: Array | None, kind: int | None) -> Array | None:
    """Returns numbers in an integer type if the type holds all of them exactly, else None."""
    low, high = limits_of(kind) or (0, -1)
    if known is None or not np.all((known == np.floor(known)) & (low <= known) & (known <= high)):
        return None
    return known.astype(dtype_of(kind or 0))


def length_of(x: Value, axis: int) -> int | None:
    """Returns one dimension of a value if it is known, else None."""
    dims = x.dims_or_none
    size = dims[axis] if dims is not None and -len(dims) <= axis < len(dims) else None
    return size if isinstance(size, int) else None


def reshaped(found: Found, side: str, kind: int | None) -> dict[str, Any] | None:
    """Returns the axis for which scale and zero point are reshaped vectors, or None."""
    told, parts = found.numbers, (found[f"{side}_scale"], found[f"{side}_zero_point"])
    goal = told["goal"]
    if goal != told["zero_goal"] or goal[:1] != [-1] or any(size != 1 for size in goal[1:]):
        return None
    length = length_of(found["x"], -len(goal))
    if length is None or any(part.shape_or_none != (length,) for part in parts):
        return None
    return {"axis": -len(goal)} if parts[1].elem_type_or_none == kind else None


def lying(found: Found, side: str, kind: int | None) -> dict[str, Any] | None:
    """Returns the axis along which scale and zero point vary, and the constants, or None."""
    scale, zero = f"{side}_scale", f"{side}_zero_point"
    shape = found[scale].shape_or_none
    if not shape or found[zero].shape_or_none != shape or any(size != 1 for size in shape[1:]):
        return None
    if length_of(found["x"], -len(shape)) != shape[0] or kind not in SMALL_INTS:
        return None
    told: dict[str, Any] = {"axis": -len(shape)}
    for name, part in ((scale, found[scale]), (zero, found[zero])):
        constant = part.const_or_none()
        if constant is None and len(shape) > 1:
            return None
        if constant is not None:
            told[name] = constant.ravel()
    if zero not in told:
        return told if found[zero].elem_type_or_none == kind else None
    point = as_codes(told[zero], kind)
    return None if point is None else {**told, zero: point}
