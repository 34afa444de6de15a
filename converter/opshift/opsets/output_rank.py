# SPDX-License-Identifier: Apache-2.0
"""Computes the rank of an output from a rule in the signature of its operator.

3           a number
X           the rank of an input; of a variadic input, the rank of its first value
X + 1       the rank of an input and a number
max A B     the larger rank of two inputs, which broadcast
A @ B       the rank of the matrix product of two inputs; unknown if one is a vector
"""

from __future__ import annotations

from collections.abc import Callable


def output_rank(rule: str, rank_of: Callable[[str], int]) -> int | None:
    """Returns the rank for a rule, or None; raises ValueError for an unreadable rule."""
    match rule.split():
        case [number] if number.isdecimal():
            return int(number)
        case [name]:
            return rank_of(name)
        case [name, "+", number] if number.isdecimal():
            return rank_of(name) + int(number)
        case ["max", one, other]:
            return max(rank_of(one), rank_of(other))
        case [one, "@", other]:
            ranks = rank_of(one), rank_of(other)
            return max(ranks) if min(ranks) > 1 else None
    raise ValueError(rule)
