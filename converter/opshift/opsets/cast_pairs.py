# SPDX-License-Identifier: Apache-2.0
"""Pairs of Casts that lose numbers, so that one Cast gives other numbers than the two."""

from __future__ import annotations

import math
from typing import NamedTuple

from opshift.opsets.elements import ELEMENTS, Element, T


class Fraction(NamedTuple):
    """The range and precision of a type of fractions."""

    bits: int  # of the integers that it holds without a gap
    smallest: int  # the exponent of its smallest number
    range: float = math.inf  # a bound of its numbers, if some integers are larger


_FRACTIONS = {
    "float": Fraction(24, -149),
    "double": Fraction(53, -1074),
    "float16": Fraction(11, -24, 2**16 - 1),
    "bfloat16": Fraction(8, -133),
}
_INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))


def narrows(source: str, middle: str, target: str) -> bool:
    """Whether a Cast from `source` to `target` gives other numbers than two over `middle`."""
    known = (*_INTEGERS, *_FRACTIONS)
    if middle not in known or source not in known or target not in (*known, "bool"):
        return False
    if source == middle or middle in _row(source).wider.split():
        return False
    if middle in _FRACTIONS:
        return _rounds(source, middle, target)
    if source in _FRACTIONS:
        return target == "bool"  # 0.5 is true, and 0 is false
    bits = _row(middle).bits
    if target == "bool":
        return bits < _row(source).bits
    return target in _FRACTIONS or _row(target).bits > bits


def _rounds(source: str, middle: str, target: str) -> bool:
    """Whether a middle type of fractions rounds numbers that the target tells apart."""
    first, between = _FRACTIONS.get(source), _FRACTIONS[middle]
    if target == middle:
        return False
    if target == "bool":  # integers do not become 0
        return first is not None and first.smallest < between.smallest
    if first is not None and first.bits > between.bits:
        return True
    exact = limits(middle)[1] if first is None else between.range
    last = _FRACTIONS.get(target)
    return (last.range if last else limits(target)[1]) > exact


def limits(kind: str) -> tuple[int, int]:
    """The ends of the integers that a type holds without a gap."""
    if kind in _FRACTIONS:
        return -(2 ** _FRACTIONS[kind].bits), 2 ** _FRACTIONS[kind].bits
    return _row(kind).limits


def _row(kind: str) -> Element:
    return ELEMENTS[T[kind.upper()]]
