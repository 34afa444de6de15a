# SPDX-License-Identifier: Apache-2.0
"""Converts many models, each in a child process, so that a crash affects only one model."""

from __future__ import annotations

from opshift.zoo.migrate import migrate
from opshift.zoo.outcome import Blocker, Fate, Outcome
from opshift.zoo.summary import Summary
from opshift.zoo.workers.limits import ModelLimits

__all__ = ["Blocker", "Fate", "ModelLimits", "Outcome", "Summary", "migrate"]
