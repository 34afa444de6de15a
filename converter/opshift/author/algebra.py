# SPDX-License-Identifier: Apache-2.0
"""Declares the operators of sums and products, and the operators whose operands can be swapped."""

from __future__ import annotations

from opshift.author.traits import Trait
from opshift.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic(Trait):
    """The three operators of sums (Add, Sub, Neg) or of products (Mul, Div, Reciprocal)."""

    table = "arithmetic"
    kind: str
    neutral: int
    power: str = ""  # the operator to which equal operands can be combined, such as Pow

    @property
    def join(self) -> str:
        """Returns the operator that combines two operands, such as Add or Mul."""
        return self.ops[0]

    @property
    def part(self) -> str:
        """Returns the operator that undoes `join`, such as Sub or Div."""
        return self.ops[1]

    @property
    def turn(self) -> str:
        """Returns the operator that inverts its operand, such as Neg or Reciprocal."""
        return self.ops[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commutes(Trait):
    """Operators such as Add, whose two operands can be swapped without a change of the result."""

    table = "commutes"


def arithmetic(
    kind: str, join: str, part: str, turn: str, *, neutral: int, power: str = ""
) -> Arithmetic:
    """Declares the three operators of sums (Add, Sub, Neg) or products (Mul, Div, Reciprocal)."""
    return Arithmetic(ops=(join, part, turn), kind=kind, neutral=neutral, power=power)


def commutes(ops: str) -> Commutes:
    """Declares operators such as Add, whose two operands can be swapped without other results."""
    return Commutes(ops=tuple(ops.split()))
