# SPDX-License-Identifier: Apache-2.0
"""Which pairs of Casts give other numbers than one Cast, by numpy's own casts."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from opshift.model.arrays import dtype_of
from opshift.opsets import cast_pairs
from opshift.opsets.elements import NAMED, T

INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
FRACTIONS = {"float": 24, "double": 53, "float16": 11, "bfloat16": 8}
KINDS = [*INTEGERS, *FRACTIONS, "bool"]
PROBES = [
    0,
    1,
    -1,
    0.5,
    100,
    -100,
    128,
    255,
    256,
    -129,
    32768,
    65535,
    65536,
    2**31,
    2**32,
    -(2**40),
    2**63,
]


@pytest.mark.parametrize("source", KINDS)
def test_a_pair_narrows_exactly_where_one_cast_gives_other_numbers(source):
    for middle, target in itertools.product(INTEGERS, KINDS):
        first, between, last = (_dtype(kind) for kind in (source, middle, target))
        fraction = source in FRACTIONS
        if fraction and target != "bool":
            continue  # no runtime merges these
        lowest, highest = NAMED[middle].limits if fraction else (-(2**63), 2**64)
        probes = [n for n in PROBES if lowest <= n <= highest and _fits(n, first)]
        values = np.array(probes).astype(first)
        with np.errstate(all="ignore"):
            differ = values.astype(between).astype(last) != values.astype(last)
        assert cast_pairs.narrows(source, middle, target) == differ.any(), (middle, target)


def _fits(number, dtype):
    if dtype.kind in "iu":
        return number == int(number) and np.iinfo(dtype).min <= number <= np.iinfo(dtype).max
    return number in (0, 1) if dtype.kind == "b" else abs(number) < 60000


@pytest.mark.parametrize("source", [kind for kind in KINDS if kind != "bool"])
def test_a_middle_type_of_fractions_rounds_exactly_where_one_cast_gives_other_numbers(source):
    for middle, target in itertools.product(FRACTIONS, KINDS):
        if middle == source:
            continue
        first, between, last = (_dtype(kind) for kind in (source, middle, target))
        with np.errstate(all="ignore"):
            values = np.array([n for n in _near_ties() if _holds(n, source)], dtype=object)
            values = _cast(values, first)
            values = values[np.isfinite(values.astype(np.float64))]
            if target in INTEGERS:  # a Cast of what the target does not hold is undefined
                values = values[[_holds(int(n), target, 0.99) for n in values]]
            differ = _cast(_cast(values, between), last) != _cast(values, last)
        assert cast_pairs.narrows(source, middle, target) == differ.any(), (middle, target)


def _near_ties():
    """Yields numbers that one Cast rounds, and numbers that a second Cast rounds again."""
    yield from (n for n in PROBES if abs(n) < 2**63)
    yield from (2.0**-30, 2.0**-140, 2.0**-200, 70000, *(1 - 2.0**-n for n in (10, 13, 40)))
    for bits in FRACTIONS.values():
        for start in (0, 5, 10, 13, 20, 28, 38, 60):
            if start >= bits:
                yield 2**start + 2 ** (start - bits)
                yield 2**start + 2 ** (start - bits) + 1
            yield 2.0**start * (1 + 2.0**-bits)
            yield from (2.0**start * (1 + 2.0**-bits + 2.0**-lost) for lost in (14, 26, 30, 50))


def _holds(number, kind, share=1.0):
    """Returns whether a type can represent a number; float types round it."""
    if kind in FRACTIONS:
        return True
    low, high = NAMED[kind].limits
    return number == int(number) and low * share <= number <= high * share


def _cast(values, dtype):
    """A Cast that rounds once; ml_dtypes rounds twice on the way to bfloat16."""
    if dtype.kind == "V" and values.dtype.itemsize > 2:
        values = np.array([_in_8_bits(n) if np.isfinite(n) else n for n in values], np.float64)
    return values.astype(dtype)


def _in_8_bits(number):
    exact = Fraction(number.item() if isinstance(number, np.generic) else number)
    unit = Fraction(2) ** (math.frexp(exact)[1] - 8)
    return float(round(exact / unit) * unit)


def _dtype(kind):
    return dtype_of(T[kind.upper()])


def test_strings_and_small_types_are_not_counted():
    assert not cast_pairs.narrows("string", "int32", "bool")
    assert not cast_pairs.narrows("int32", "int8", "string")
    assert not cast_pairs.narrows("float", "float8e4m3fn", "float")
    assert not cast_pairs.narrows("", "int8", "float")
