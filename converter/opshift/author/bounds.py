# SPDX-License-Identifier: Apache-2.0
"""Finds bounds of integer values before the model runs, for example that a size is at least 0."""

from __future__ import annotations

from collections.abc import Iterable

from opshift.lazy import numpy as np
from opshift.model.arrays import Array
from opshift.records import dataclass

MOST_EACH = 4096  # up to this many elements, each element has its own bounds


@dataclass(frozen=True, slots=True)
class Bounds:
    """The smallest and the largest integer that the elements of a value can have.

    The arrays contain Python integers, which never overflow. With `each`, the arrays have the shape
    of the value, and one pair of bounds for each element; otherwise they hold one pair for all
    elements.
    """

    low: Array
    high: Array
    each: bool = False

    @property
    def never_negative(self) -> bool:
        return self.lowest >= 0

    @property
    def exact(self) -> Array | None:
        """Returns the value if each element's lower bound equals its upper bound; else None."""
        return self.low if self.each and bool((self.low == self.high).all()) else None

    @property
    def lowest(self) -> int:
        return int(self.low.min()) if self.low.size else 0

    @property
    def highest(self) -> int:
        return int(self.high.max()) if self.high.size else 0

    @property
    def joint(self) -> Bounds:
        """Returns one pair of bounds that holds for all elements."""
        return for_all(self.lowest, self.highest)


def for_all(low: int, high: int) -> Bounds:
    """Returns bounds that are equal for all elements."""
    return Bounds(np.array(int(low), dtype=object), np.array(int(high), dtype=object))


def of_constant(value: Array) -> Bounds | None:
    """Returns the bounds of a constant of integers or booleans; None for another type."""
    if value.dtype.kind not in "iub":
        return None
    if value.size > MOST_EACH:
        return for_all(value.min(), value.max())
    exact = value.astype(np.int64 if value.dtype.kind == "b" else value.dtype).astype(object)
    return Bounds(exact, exact, each=True)


def joined(parts: Iterable[Bounds | None]) -> Bounds | None:
    """Returns one pair of bounds for all parts of a value; None if a part has no bounds."""
    bounds: Bounds | None = None
    for part in parts:
        if part is None:
            return None
        low, high = part.lowest, part.highest
        bounds = (
            for_all(min(low, bounds.lowest), max(high, bounds.highest)) if bounds else part.joint
        )
    return bounds
