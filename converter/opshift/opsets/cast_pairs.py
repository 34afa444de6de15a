# SPDX-License-Identifier: Apache-2.0
"""Finds pairs of Casts that cannot be merged into one, because the first Cast rounds numbers."""

from __future__ import annotations

from opshift.opsets.elements import NAMED, Element, Fraction

_FRACTIONS = tuple(NAMED[name] for name in ("float", "double", "float16", "bfloat16"))
_INTEGERS = tuple(NAMED[f"{sign}int{bits}"] for sign in ("", "u") for bits in (8, 16, 32, 64))
_KNOWN = (*_INTEGERS, *_FRACTIONS)
_BOOL = NAMED["bool"]


def narrows(source: str, middle: str, target: str) -> bool:
    """Returns whether a direct Cast differs from a Cast over the type `middle`."""
    first, between, last = NAMED.get(source), NAMED.get(middle), NAMED.get(target)
    if first not in _KNOWN or between not in _KNOWN or last not in (*_KNOWN, _BOOL):
        return False
    if between.holds(first):
        return False
    if between.fraction is not None:
        return last != between and _rounds(first, between.fraction, last)
    if first.fraction is not None:
        return last == _BOOL  # as bool, 0.5 is true but 0 is false
    if last == _BOOL:
        return between.bits < first.bits
    return last.fraction is not None or last.bits > between.bits


def _rounds(source: Element, between: Fraction, target: Element) -> bool:
    """Returns whether a Cast through `between` gives other numbers than a Cast to `target`."""
    first = source.fraction
    if target == _BOOL:  # a nonzero integer never becomes 0
        return first is not None and first.least < between.least
    largest = target.fraction.largest if target.fraction else target.limits[1]
    if first is None:
        return largest > 1 << between.bits
    return first.bits > between.bits or largest >= first.above(between.largest)
