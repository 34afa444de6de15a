# SPDX-License-Identifier: Apache-2.0
"""Whether two results are the same numbers, as engines round them."""

from __future__ import annotations

import numpy as np

Arrays = dict[str, np.ndarray]
RELATIVE = {"float16": 5e-3, "float32": 1e-4, "float64": 1e-6}
"""Relative slack by element type."""


def difference(got: Arrays, expected: Arrays, slack: float = 0.0) -> str:
    """The first output that differs beyond rounding, told in a line; empty when none does."""
    for name, wanted in expected.items():
        if name not in got:
            return f"output {name!r} is missing"
        if told := _array_difference(got[name], wanted, slack, typed="#" not in name):
            return f"output {name!r}: {told}"
    return ""


def _array_difference(got: np.ndarray, wanted: np.ndarray, slack: float, typed: bool) -> str:
    if got.shape != wanted.shape:
        return f"shape {list(got.shape)}, expected {list(wanted.shape)}"
    text = wanted.dtype.kind in "OUST"
    if typed and not text and got.dtype != wanted.dtype:
        return f"type {got.dtype}, expected {wanted.dtype}"
    if text or wanted.dtype.kind in "biu":
        unequal = np.asarray(got.astype(str) != wanted.astype(str) if text else got != wanted)
        return f"{unequal.sum()} of {unequal.size} elements differ" if unequal.any() else ""
    return _float_difference(got, wanted, slack)


def _float_difference(got: np.ndarray, wanted: np.ndarray, slack: float) -> str:
    """Allow each element the rounding of its own size and a tenth of that of the largest."""
    relative = max(RELATIVE.get(a.dtype.name, 2e-2) for a in (got, wanted))
    a, b = got.astype(np.complex128), wanted.astype(np.complex128)
    finite = np.isfinite(a) & np.isfinite(b)
    largest = np.abs(b[np.isfinite(b)]).max(initial=0.0)
    with np.errstate(invalid="ignore"):
        error = np.abs(a - b)
        close = error <= relative * (np.abs(b) + 0.1 * largest) + 4 * slack
    unequal = ~np.where(finite, close, (a == b) | (np.isnan(a) & np.isnan(b)))
    if not unequal.any():
        return ""
    worst = np.where(np.isnan(error), np.inf, error)[unequal].max()
    return f"max error {worst:.3g}, {unequal.sum()} of {unequal.size} elements differ"
