# SPDX-License-Identifier: Apache-2.0
"""Learns from the models that were converted how long a model may take.

A model that takes longer is postponed, and is tried once more after all others. So a model
that hangs costs little while others wait, and a slow model still has time.
"""

from __future__ import annotations

from collections import deque
from dataclasses import field

from opshift.records import dataclass

ENOUGH, KEPT = 16, 256  # models: this many decide, of this many that are kept
FIRST = 60.0  # seconds for a model until enough models are known, and for the last try at least
SHORTEST, LONGEST = 10.0, 600.0  # seconds for a model
PATIENCE = 20.0  # times the pace of nine of ten models
FIXED = 1 << 20  # bytes that take as long as a model without weights
EXTRA = 3600.0  # seconds for all last tries, in addition to the seconds of all first tries


@dataclass(slots=True)
class LearnedLimit:
    """The time limits of a run."""

    seconds_per_byte: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))
    spent: float = 0.0  # seconds of first tries
    granted: float = 0.0  # seconds for last tries

    def learn(self, size: int, seconds: float) -> None:
        """Remembers the size of a model that was converted, and its time."""
        self.seconds_per_byte.append(seconds / (FIXED + size))

    def first(self, size: int) -> float:
        """The limit for the first try of a model of some size."""
        known = sorted(self.seconds_per_byte)
        if len(known) < ENOUGH:
            return FIRST
        pace = known[len(known) * 9 // 10]
        return min(LONGEST, max(SHORTEST, PATIENCE * pace * (FIXED + size)))

    def last(self, waiting: int) -> float:
        """The limit for the last try of one of the models that were put aside.

        All last tries share one hour plus the seconds that the run has taken so far.
        """
        share = (EXTRA + self.spent - self.granted) / waiting
        seconds = min(LONGEST, max(FIRST, share))
        self.granted += seconds
        return seconds
