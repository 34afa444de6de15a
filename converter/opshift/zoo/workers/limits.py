# SPDX-License-Identifier: Apache-2.0
"""Defines the limits of a child process that converts models."""

from __future__ import annotations

from opshift.convert.request_values import real, whole
from opshift.records import dataclass

GRACE = 5.0  # seconds after which the parent kills a child that its own alarm did not end


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """The time and memory for one model, and the number of tries.

    If `seconds` is None, the run estimates how long a model may take (`learned_limit.py`).
    """

    seconds: float | None = None
    megabytes: int | None = None
    recycle: int = 5000  # models per child process; a new child process is slow at first
    retries: int = 1

    def __post_init__(self) -> None:
        if self.seconds is not None:
            object.__setattr__(self, "seconds", real("seconds", self.seconds, positive=True))
        if self.megabytes is not None:
            object.__setattr__(self, "megabytes", whole("megabytes", self.megabytes, 1))
