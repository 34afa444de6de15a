# SPDX-License-Identifier: Apache-2.0
"""Bounds of whole numbers before the model runs: sizes and indices that are never negative."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from opshift.lazy import deferred
from opshift.model.arrays import Array
from opshift.records import dataclass

if TYPE_CHECKING:
    import numpy as np
else:
    np = deferred("numpy")

MOST_EACH = 4096  # elements whose bounds are kept one by one


@dataclass(frozen=True, slots=True)
class Bounds:
    """The smallest and the largest integer that the elements of a value can be.

    The arrays hold Python's integers, which never wrap. They have the shape of the value if each
    element has bounds of its own; otherwise they hold one number for all elements.
    """

    low: Array
    high: Array
    each: bool = False

    @property
    def never_negative(self) -> bool:
        return self.lowest >= 0

    @property
    def exact(self) -> Array | None:
        """The values, if the bounds leave no choice."""
        return self.low if self.each and bool((self.low == self.high).all()) else None

    @property
    def lowest(self) -> int:
        return int(self.low.min()) if self.low.size else 0

    @property
    def highest(self) -> int:
        return int(self.high.max()) if self.high.size else 0

    @property
    def joint(self) -> Bounds:
        """One pair of bounds for all elements."""
        return for_all(self.lowest, self.highest)


def for_all(low: int, high: int) -> Bounds:
    """The same bounds for all elements."""
    return Bounds(np.array(int(low), dtype=object), np.array(int(high), dtype=object))


def of_constant(value: Array) -> Bounds | None:
    """The bounds of a constant of whole numbers."""
    if value.dtype.kind not in "iub":
        return None
    if value.size > MOST_EACH:
        return for_all(value.min(), value.max())
    exact = value.astype(np.int64 if value.dtype.kind == "b" else value.dtype).astype(object)
    return Bounds(exact, exact, each=True)


def joined(parts: Iterable[Bounds | None]) -> Bounds | None:
    """One pair of bounds for all parts of a value, unless a part has none."""
    found: Bounds | None = None
    for part in parts:
        if part is None:
            return None
        low, high = part.lowest, part.highest
        found = for_all(min(low, found.lowest), max(high, found.highest)) if found else part.joint
    return found
