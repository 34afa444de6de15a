# SPDX-License-Identifier: Apache-2.0
"""The bounds of integer constants are exact, also of large ones; fractions have no bounds."""

from __future__ import annotations

import numpy as np
import pytest
from opshift.author.bounds import MOST_EACH, Bounds, for_all, joined, of_constant


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.int8, bool])
def test_a_constant_has_its_own_values_as_bounds(kind: type) -> None:
    value = np.array([[0, 1], [1, 1]], kind)
    found = of_constant(value)
    assert found is not None
    assert found.each
    assert found.exact is not None
    assert found.exact.tolist() == value.astype(int).tolist()
    assert {type(one) for one in found.exact.flat} == {int}
    assert (found.lowest, found.highest, found.never_negative) == (0, 1, True)


def test_bounds_never_wrap() -> None:
    found = of_constant(np.array([2**64 - 1, 0], np.uint64))
    assert found is not None
    assert found.high[0] + 1 == 2**64


@pytest.mark.parametrize("size", [MOST_EACH, MOST_EACH + 1])
def test_a_large_constant_has_one_pair_of_bounds(size: int) -> None:
    value = np.zeros(size, np.int64)
    value[0], value[-1] = -3, 7
    found = of_constant(value)
    assert found is not None
    assert (found.lowest, found.highest, found.never_negative) == (-3, 7, False)
    assert found.each == (size <= MOST_EACH)
    assert (found.exact is None) == (size > MOST_EACH)


def test_fractions_have_no_bounds() -> None:
    assert of_constant(np.array([1.0, 2.0], np.float32)) is None


def test_the_joint_bounds_are_the_widest() -> None:
    found = Bounds(np.array([1, -2], object), np.array([5, 4], object), each=True)
    assert found.exact is None
    assert (found.joint.low, found.joint.high, found.joint.each) == (-2, 5, False)
    assert for_all(4, 4).exact is None, "nothing says how many elements there are"


def test_no_elements_have_bounds_that_permit_everything_that_is_not_negative() -> None:
    found = of_constant(np.zeros(0, np.int64))
    assert found is not None
    assert (found.lowest, found.highest, found.never_negative) == (0, 0, True)


def test_parts_of_a_value_have_common_bounds_unless_a_part_has_none() -> None:
    parts = [of_constant(np.array(part)) for part in ([3, 5], [-2, 4], [0, 9])]
    found = joined(parts)
    assert (found.lowest, found.highest, found.each) == (-2, 9, False)
    first = joined(parts[:1])
    assert (first.lowest, first.highest, first.each) == (3, 5, False)
    assert joined([*parts, None]) is None
    assert joined([]) is None
