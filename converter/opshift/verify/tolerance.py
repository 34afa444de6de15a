# SPDX-License-Identifier: Apache-2.0
"""Defines the allowed difference of two values of one element type."""

from __future__ import annotations

from typing import Any

import numpy as np

from opshift.records import dataclass


@dataclass(frozen=True, slots=True)
class Tolerance:
    """An element passes if it is within `ulp` steps, or within atol + rtol * |expected|."""

    rtol: float = 0.0
    atol: float = 0.0
    ulp: int = 0

    def difference(self, expected: Any, actual: Any) -> str:
        """Describes a difference that exceeds the tolerance; empty if there is none."""
        from opshift.verify.oracle import compare

        difference = compare([expected], [actual], rtol=self.rtol, atol=self.atol, ulp=self.ulp)
        return (difference or "").removeprefix("output 0").removeprefix(": ")


EXACT = Tolerance()
BY_TYPE = {
    "float64": Tolerance(1e-9, 1e-12, 16),
    "complex128": Tolerance(1e-9, 1e-12, 16),
    "float32": Tolerance(1e-4, 1e-5, 16),
    "complex64": Tolerance(1e-4, 1e-5, 16),
    "float16": Tolerance(5e-3, 1e-3, 4),
    "bfloat16": Tolerance(3e-2, 1e-2, 4),
    # One step between neighbouring numbers of the 8-bit types, also between the smallest numbers.
    "float8_e4m3fn": Tolerance(0.125, 2**-9),
    "float8_e4m3fnuz": Tolerance(0.125, 2**-10),
    "float8_e5m2": Tolerance(0.25, 2**-16),
    "float8_e5m2fnuz": Tolerance(0.25, 2**-17),
}


@dataclass(frozen=True, slots=True)
class StatedTolerance:
    """The tolerances that the caller has given; None means the default of the element type."""

    rtol: float | None = None
    atol: float | None = None
    ulp: int | None = None

    def at(self, value: Any, computed_in: str = "") -> Tolerance:
        """Returns the tolerance for a value, which is zero for types other than floats.

        A value that is computed in a less precise type gets the tolerance of that type.
        """
        usual = BY_TYPE.get(element_type(value), EXACT)
        if usual == EXACT:
            return EXACT
        coarse = BY_TYPE.get(computed_in, EXACT)
        if coarse.rtol > usual.rtol:
            usual = Tolerance(coarse.rtol, coarse.atol, usual.ulp)
        return Tolerance(
            usual.rtol if self.rtol is None else self.rtol,
            usual.atol if self.atol is None else self.atol,
            usual.ulp if self.ulp is None else self.ulp,
        )


def distance(expected: Any, actual: Any) -> float | None:
    """Returns the largest difference of two numbers at equal positions; None without numbers.

    Infinities and NaN are left out, because the outcome states whether they are equal.
    """
    if isinstance(expected, list):
        pairs = zip(expected, actual, strict=False)
    elif isinstance(expected, dict):
        pairs = zip(expected.values(), (actual.get(key) for key in expected), strict=True)
    else:
        return _array_distance(np.asarray(expected), np.asarray(actual))
    distances = [largest for pair in pairs if (largest := distance(*pair)) is not None]
    return max(distances, default=None)


def _array_distance(expected: Any, actual: Any) -> float | None:
    kinds = {array.dtype.kind for array in (expected, actual)}
    if expected.shape != actual.shape or not kinds <= {*"biufcV"} or not expected.size:
        return None
    wide = np.complex128 if "c" in kinds else np.float64
    with np.errstate(all="ignore"):
        apart = np.abs(expected.astype(wide) - actual.astype(wide))
    return float(np.max(apart, initial=0.0, where=np.isfinite(apart)))


def element_type(value: Any) -> str:
    """Returns numpy's name of the element type of a tensor, sequence or map."""
    while isinstance(value, (list, dict)):
        if not value:
            return ""
        value = value[0] if isinstance(value, list) else next(iter(value.values()))
    if isinstance(value, float):
        return "float32"  # a map of ONNX holds its floats as float32
    return str(value.dtype.name) if isinstance(value, np.ndarray | np.generic) else ""
