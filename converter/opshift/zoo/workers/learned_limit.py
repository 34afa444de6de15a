# SPDX-License-Identifier: Apache-2.0
"""Estimates the time limit for a model from the times of the models that were converted.

A model that exceeds the limit is retried once after all other models. Because of the late retry, a
model that hangs delays the others only briefly, and a slow model still gets enough time.
"""

from __future__ import annotations

from collections import deque
from dataclasses import field

from opshift.records import dataclass

ENOUGH, KEPT = 16, 256  # ENOUGH models are needed for an estimate; the latest KEPT models are used
FIRST = 60.0  # the limit in seconds until enough models are known, and the least limit of a retry
SHORTEST, LONGEST = 10.0, 600.0  # the bounds of an estimated limit in seconds
PATIENCE = 20.0  # the limit is this factor times the pace of nine of ten models
FIXED = 1 << 20  # a model without weights takes as long as this number of bytes
EXTRA = 3600.0  # seconds for all retries together, in addition to the time of all first tries


@dataclass(slots=True)
class LearnedLimit:
    """The time limits of a run, which depend on the models that were converted before."""

    seconds_per_byte: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))
    spent: float = 0.0  # seconds of all first tries
    granted: float = 0.0  # seconds that were allowed for retries

    def record(self, size: int, seconds: float) -> None:
        """Stores the size of a converted model and the time of its conversion."""
        self.seconds_per_byte.append(seconds / (FIXED + size))

    def first(self, size: int) -> float:
        """Returns the limit for the first try of a model of this size."""
        paces = sorted(self.seconds_per_byte)
        if len(paces) < ENOUGH:
            return FIRST
        pace = paces[len(paces) * 9 // 10]
        return min(LONGEST, max(SHORTEST, PATIENCE * pace * (FIXED + size)))

    def last(self, waiting: int) -> float:
        """Returns the time limit for a retry while `waiting` models are postponed.

        All retries share one hour plus the time that all first tries have taken.
        """
        share = (EXTRA + self.spent - self.granted) / waiting
        seconds = min(LONGEST, max(FIRST, share))
        self.granted += seconds
        return seconds
