# SPDX-License-Identifier: Apache-2.0
"""Pairs of Casts that narrow numbers, so that one Cast gives other numbers than the two."""

from __future__ import annotations

from opshift.opsets.elements import ELEMENTS, Element, T

_FLOATS = ("float", "double", "float16")
_INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))


def narrows(source: str, middle: str, target: str) -> bool:
    """Whether a Cast from `source` to `target` wraps or cuts off less than two over `middle`.

    A middle type of fractions only rounds numbers, and is not counted.
    """
    if middle not in _INTEGERS or source not in (*_INTEGERS, *_FLOATS):
        return False
    if source == middle or middle in _row(source).wider.split():
        return False
    if source in _FLOATS:
        return target == "bool"  # 0.5 is true, and 0 is false
    bits = _row(middle).bits
    if target == "bool":
        return bits < _row(source).bits
    return target in _FLOATS or (target in _INTEGERS and _row(target).bits > bits)


def limits(kind: str) -> tuple[int, int]:
    """The smallest and the largest number of an integer type."""
    bits = _row(kind).bits
    return (0, 2**bits - 1) if kind[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _row(kind: str) -> Element:
    return ELEMENTS[T[kind.upper()]]
