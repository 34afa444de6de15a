# SPDX-License-Identifier: Apache-2.0
"""Which pairs of Casts give other numbers than one Cast, by numpy's own casts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from opshift.model.arrays import dtype_of
from opshift.opsets import cast_pairs
from opshift.opsets.elements import T

INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
KINDS = [*INTEGERS, "float", "double", "float16", "bool"]
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
        first, between, last = (dtype_of(T[kind.upper()]) for kind in (source, middle, target))
        fraction = first.kind == "f"
        if fraction and target != "bool":
            continue  # no runtime merges these
        lowest, highest = cast_pairs.limits(middle) if fraction else (-(2**63), 2**64)
        probes = [n for n in PROBES if lowest <= n <= highest and _fits(n, first)]
        values = np.array(probes).astype(first)
        with np.errstate(all="ignore"):
            differ = values.astype(between).astype(last) != values.astype(last)
        assert cast_pairs.narrows(source, middle, target) == differ.any(), (middle, target)


def _fits(number, dtype):
    if dtype.kind in "iu":
        return number == int(number) and np.iinfo(dtype).min <= number <= np.iinfo(dtype).max
    return number in (0, 1) if dtype.kind == "b" else abs(number) < 60000


def test_strings_and_small_types_are_not_counted():
    assert not cast_pairs.narrows("string", "int32", "bool")
    assert not cast_pairs.narrows("int32", "int8", "string")
    assert not cast_pairs.narrows("float", "float16", "float")
    assert not cast_pairs.narrows("", "int8", "float")
