# SPDX-License-Identifier: Apache-2.0
"""The limits of a child that works on models."""

from __future__ import annotations

from opshift.records import dataclass

GRACE = 5.0  # seconds after which the parent kills a child that the alarm did not end


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """The time and memory for one model, and the number of tries.

    Without `seconds`, a run learns how long a model may take (`learned_limit.py`).
    """

    seconds: float | None = None
    megabytes: int | None = None
    recycle: int = 5000  # models of one child, which a new child converts slowly at first
    retries: int = 1
