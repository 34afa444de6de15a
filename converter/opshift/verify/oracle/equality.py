# SPDX-License-Identifier: Apache-2.0
"""Compares two lists of values, and describes the first difference in one sentence."""

from typing import Any

import ml_dtypes
import numpy as np

from opshift.verify.oracle.values import Value, is_float, type_of

_BITS = {
    np.dtype(np.float16): np.int16,
    np.dtype(ml_dtypes.bfloat16): np.int16,
    np.dtype(np.float32): np.int32,
    np.dtype(np.float64): np.int64,
}


def compare(
    expected: list[Value],
    actual: list[Value],
    *,
    rtol: float = 0.0,
    atol: float = 0.0,
    ulp: int = 0,
    signed_zero: bool = False,
) -> str | None:
    """Returns None if all values are equal; otherwise describes the first output that differs."""
    if len(expected) != len(actual):
        return f"{len(expected)} outputs expected, {len(actual)} given"
    for index, (one, other) in enumerate(zip(expected, actual, strict=True)):
        found = _value(one, other, rtol, atol, ulp, signed_zero)
        if found:
            return f"output {index}{found}"
    return None


def _value(one: Value, other: Value, *tolerance: Any) -> str | None:
    if isinstance(one, np.generic):
        one = np.asarray(one)
    if isinstance(other, np.generic):
        other = np.asarray(other)
    if one is None or other is None:
        return None if one is other else f": {_kind(one)} expected, {_kind(other)} given"
    if isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            return f": length {len(one)} expected, {len(other)} given"
        pairs: Any = enumerate(zip(one, other, strict=True))
    elif isinstance(one, dict) and isinstance(other, dict):
        if one.keys() != other.keys():
            return f": keys {sorted(one)} expected, {sorted(other)} given"
        pairs = ((repr(key), (one[key], other[key])) for key in one)
    elif isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return _tensor(one, other, *tolerance)
    elif isinstance(one, int | float | str) and isinstance(other, int | float | str):
        return _tensor(np.asarray(one), np.asarray(other), *tolerance)
    else:
        return f": {_kind(one)} expected, {_kind(other)} given"
    for key, (left, right) in pairs:
        if found := _value(left, right, *tolerance):
            return f"[{key}]{found}"
    return None


def _kind(value: Value) -> str:
    return "nothing" if value is None else type_of(value)


def _tensor(
    one: np.ndarray, other: np.ndarray, rtol: float, atol: float, ulp: int, signed_zero: bool
) -> str | None:
    if type_of(one) != type_of(other):
        return f": {type_of(one)} expected, {type_of(other)} given"
    if one.shape != other.shape:
        return f": shape {list(one.shape)} expected, {list(other.shape)} given"
    if one.dtype.kind == "c":
        one, other = (np.ascontiguousarray(x)[..., None].view(x.real.dtype) for x in (one, other))
    if not is_float(one.dtype):
        wrong = np.asarray(one != other, dtype=bool)
        return _first(wrong, one, other) if wrong.any() else None
    left, right = one.astype(np.float64), other.astype(np.float64)
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    if signed_zero:
        same &= (np.signbit(left) == np.signbit(right)) | np.isnan(left)
    if same.all():
        return None
    with np.errstate(all="ignore"):
        gap = np.abs(left - right)
        finite = np.isfinite(left) & np.isfinite(right)
        near = finite & (left != right) & (gap <= atol + rtol * np.abs(left))
        steps = _steps(one, other)
        if ulp and steps is not None:
            near |= finite & (left != right) & (steps <= ulp)
        wrong = ~(same | near)
        if not wrong.any():
            return None
        worst = np.where(finite & wrong, gap, 0).max()
        ratio = np.where(finite & wrong & (left != 0), gap / np.abs(left), 0).max()
    how = f"max abs {worst:.3g}, max rel {ratio:.3g}"
    if steps is not None:
        how += f", max ulp {np.where(finite & wrong, steps, 0).max():.0f}"
    return f"{_first(wrong, one, other)} ({how})"


def _steps(one: np.ndarray, other: np.ndarray) -> np.ndarray | None:
    """Counts the representable numbers between two arrays; returns None for 8-bit floats."""
    bits = _BITS.get(one.dtype)
    if bits is None:
        return None
    lowest = float(np.iinfo(bits).min)
    places = []
    for x in (one, other):
        order = np.ascontiguousarray(x).reshape(x.shape).view(bits).astype(np.int64)
        places.append(np.where(order < 0, lowest - order.astype(np.longdouble), order))
    return np.abs(places[0] - places[1]).astype(np.float64)


def _first(wrong: np.ndarray, one: np.ndarray, other: np.ndarray) -> str:
    index = tuple(int(i) for i in np.argwhere(wrong)[0]) if wrong.ndim else ()
    return (
        f": {int(wrong.sum())} of {wrong.size} elements differ, first at {list(index)}:"
        f" {one[index]!s} expected, {other[index]!s} given"
    )
