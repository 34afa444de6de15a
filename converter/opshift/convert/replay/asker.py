# SPDX-License-Identifier: Apache-2.0
"""The part of a step that records see."""

from __future__ import annotations

from typing import Protocol

from opshift.author.builder import Crossing
from opshift.author.facts import Facts
from opshift.author.registry import Registry


class Asker(Crossing, Protocol):
    """The step that needs the answers."""

    facts: Facts
    adapters: Registry
    domain: str
    to: int
    boundary: tuple[int, int]
