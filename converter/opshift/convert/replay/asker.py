# SPDX-License-Identifier: Apache-2.0
"""The attributes of a step that records of adapter calls use."""

from __future__ import annotations

from typing import Protocol

from opshift.author.builder import Crossing
from opshift.author.facts import Facts
from opshift.author.registry import Registry


class Asker(Crossing, Protocol):
    """The step that converts a node, with an adapter or with the record of an earlier call."""

    facts: Facts
    adapters: Registry
    domain: str
    to: int
    boundary: tuple[int, int]
