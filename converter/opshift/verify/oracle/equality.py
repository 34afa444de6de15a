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
    for index, (first, second) in enumerate(zip(expected, actual, strict=True)):
        difference = _value(first, second, rtol, atol, ulp, signed_zero)
        if difference:
            return f"output {index}{difference}"
    return None


def _value(first: Value, second: Value, *tolerance: Any) -> str | None:
    if isinstance(first, np.generic):
        first = np.asarray(first)
    if isinstance(second, np.generic):
        second = np.asarray(second)
    if first is None or second is None:
        return None if first is second else f": {_kind(first)} expected, {_kind(second)} given"
    if isinstance(first, list) and isinstance(second, list):
        if len(first) != len(second):
            return f": length {len(first)} expected, {len(second)} given"
        pairs: Any = enumerate(zip(first, second, strict=True))
    elif isinstance(first, dict) and isinstance(second, dict):
        if first.keys() != second.keys():
            return f": keys {sorted(first)} expected, {sorted(second)} given"
        pairs = ((repr(key), (first[key], second[key])) for key in first)
    elif isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        return _tensor(first, second, *tolerance)
    elif isinstance(first, int | float | str) and isinstance(second, int | float | str):
        return _tensor(np.asarray(first), np.asarray(second), *tolerance)
    else:
        return f": {_kind(first)} expected, {_kind(second)} given"
    for key, (left, right) in pairs:
        if difference := _value(left, right, *tolerance):
            return f"[{key}]{difference}"
    return None


def _kind(value: Value) -> str:
    return "nothing" if value is None else type_of(value)


def _tensor(
    first: np.ndarray, second: np.ndarray, rtol: float, atol: float, ulp: int, signed_zero: bool
) -> str | None:
    if type_of(first) != type_of(second):
        return f": {type_of(first)} expected, {type_of(second)} given"
    if first.shape != second.shape:
        return f": shape {list(first.shape)} expected, {list(second.shape)} given"
    if first.dtype.kind == "c":
        first, second = (
            np.ascontiguousarray(x)[..., None].view(x.real.dtype) for x in (first, second)
        )
    if not is_float(first.dtype):
        wrong = np.asarray(first != second, dtype=bool)
        return _first(wrong, first, second) if wrong.any() else None
    left, right = first.astype(np.float64), second.astype(np.float64)
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    if signed_zero:
        same &= (np.signbit(left) == np.signbit(right)) | np.isnan(left)
    if same.all():
        return None
    with np.errstate(all="ignore"):
        gap = np.abs(left - right)
        finite = np.isfinite(left) & np.isfinite(right)
        near = finite & (left != right) & (gap <= atol + rtol * np.abs(left))
        steps = _steps(first, second)
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
    return f"{_first(wrong, first, second)} ({how})"


def _steps(first: np.ndarray, second: np.ndarray) -> np.ndarray | None:
    """Counts the representable numbers between two arrays; returns None for 8-bit floats."""
    bits = _BITS.get(first.dtype)
    if bits is None:
        return None
    lowest = float(np.iinfo(bits).min)
    places = []
    for x in (first, second):
        order = np.ascontiguousarray(x).reshape(x.shape).view(bits).astype(np.int64)
        places.append(np.where(order < 0, lowest - order.astype(np.longdouble), order))
    return np.abs(places[0] - places[1]).astype(np.float64)


def _first(wrong: np.ndarray, first: np.ndarray, second: np.ndarray) -> str:
    index = tuple(int(i) for i in np.argwhere(wrong)[0]) if wrong.ndim else ()
    return (
        f": {int(wrong.sum())} of {wrong.size} elements differ, first at {list(index)}:"
        f" {first[index]!s} expected, {second[index]!s} given"
    )
