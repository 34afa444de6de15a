# SPDX-License-Identifier: Apache-2.0
"""The operators of sums and products, and those whose operands may change places."""

from __future__ import annotations

from opshift.author.traits import Trait
from opshift.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic(Trait):
    """The operators of sums, or of products: to combine, to undo and to invert."""

    table = "arithmetic"
    kind: str
    neutral: int
    power: str = ""  # the operator of equal operands

    @property
    def join(self) -> str:
        """The operator that joins two operands."""
        return self.ops[0]

    @property
    def part(self) -> str:
        """The operator that takes its second operand away from the first."""
        return self.ops[1]

    @property
    def turn(self) -> str:
        """The operator that takes its operand away from the neutral number."""
        return self.ops[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commutes(Trait):
    """Operators of two operands whose order does not matter."""

    table = "commutes"


def arithmetic(
    kind: str, join: str, part: str, turn: str, *, neutral: int, power: str = ""
) -> Arithmetic:
    """Declares the operators of sums, or of products."""
    return Arithmetic(ops=(join, part, turn), kind=kind, neutral=neutral, power=power)


def commutes(ops: str) -> Commutes:
    """Declares operators of two operands whose order does not matter."""
    return Commutes(ops=tuple(ops.split()))
