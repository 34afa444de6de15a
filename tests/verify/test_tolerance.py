# SPDX-License-Identifier: Apache-2.0
"""Tests the allowed difference of two values, and the distance that a report states."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from opshift.verify.tolerance import (
    BY_TYPE,
    EXACT,
    StatedTolerance,
    Tolerance,
    distance,
    element_type,
)


def after_steps(value, steps):
    """The float32 number that lies this many representable numbers above the value."""
    bits = np.array(value, "f4").view("i4") + steps
    return np.array([bits], "i4").view("f4")


@pytest.mark.parametrize("name", BY_TYPE)
def test_each_float_type_has_its_own_tolerance(name):
    kind = np.dtype(getattr(ml_dtypes, name, name))
    assert StatedTolerance().at(np.ones(1, kind)) == BY_TYPE[name]


@pytest.mark.parametrize("kind", ["int8", "int64", "uint8", "bool", "object"])
def test_values_that_are_no_floats_must_be_equal_whatever_the_caller_allows(kind):
    assert StatedTolerance(1.0, 1.0, 5).at(np.ones(1, kind)) == EXACT


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        (StatedTolerance(rtol=0.5), Tolerance(0.5, 1e-5, 16)),
        (StatedTolerance(atol=0.5), Tolerance(1e-4, 0.5, 16)),
        (StatedTolerance(ulp=3), Tolerance(1e-4, 1e-5, 3)),
        (StatedTolerance(0.0, 0.0, 0), EXACT),
    ],
)
def test_a_stated_number_replaces_only_its_own_default(stated, expected):
    assert stated.at(np.ones(1, "f4")) == expected


@pytest.mark.parametrize(
    ("computed_in", "expected"),
    [
        ("float16", Tolerance(5e-3, 1e-3, 16)),
        ("float64", BY_TYPE["float32"]),
        ("int32", BY_TYPE["float32"]),
    ],
)
def test_a_value_that_is_computed_in_a_coarser_type_gets_the_tolerance_of_that_type(
    computed_in, expected
):
    assert StatedTolerance().at(np.ones(1, "f4"), computed_in) == expected


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_steps_between_numbers_are_counted(steps):
    """An element within `ulp` steps passes, and one step more is a difference."""
    value, allowed = after_steps(1.0, 0), Tolerance(ulp=steps)
    assert not allowed.difference(value, after_steps(1.0, steps))
    assert allowed.difference(value, after_steps(1.0, steps + 1))


def test_a_difference_is_told_without_the_number_of_the_output():
    told = EXACT.difference(np.array([1.0, 2.0], "f4"), np.array([1.0, 2.5], "f4"))
    assert told
    assert not told.startswith((" ", ":", "output"))


@pytest.mark.parametrize(
    ("expected", "actual", "apart"),
    [
        (np.array([1, 5], "i8"), np.array([1, 2], "i8"), 3.0),
        (np.array([200], "u1"), np.array([100], "u1"), 100.0),
        (np.array([True]), np.array([False]), 1.0),
        (np.array([3 + 4j], "c8"), np.array([0], "c8"), 5.0),
        (np.array([1 + 1j], "c16"), np.array([1 + 3j], "c16"), 2.0),
        (np.array([1], ml_dtypes.bfloat16), np.array([3], ml_dtypes.bfloat16), 2.0),
        (np.array([np.inf, 1], "f4"), np.array([np.inf, 4], "f4"), 3.0),
        (np.array([np.nan, 1], "f4"), np.array([2, 1], "f4"), 0.0),
        (np.zeros((0,), "f4"), np.zeros((0,), "f4"), None),
        (np.zeros((2,), "f4"), np.zeros((3,), "f4"), None),
        (np.array(["a"], object), np.array(["b"], object), None),
        ([np.array([1.0]), np.array([2.0])], [np.array([1.5]), np.array([4.0])], 2.0),
        ([np.array([1.0]), np.array([2.0])], [np.array([1.5])], 0.5),
        ([np.array(["a"], object), np.array([2.0])], [np.array(["a"], object), np.array([2.0])], 0.0),
        ([], [], None),
        ({"a": 1.0, "b": 2.0}, {"b": 2.5, "a": 1.25}, 0.5),
        ([{"a": 1.0}], [{"a": 3.0}], 2.0),
    ],
)  # fmt: skip
def test_the_distance_is_the_largest_difference_of_two_numbers(expected, actual, apart):
    assert distance(expected, actual) == apart


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (np.zeros(1, "f2"), "float16"),
        ([np.zeros(1, "f8")], "float64"),
        ([[np.zeros(1, "i4")]], "int32"),
        ({"a": np.float32(1)}, "float32"),
        ({"a": 1.0}, "float32"),
        ([{1: 2.0}], "float32"),
        ([], ""),
        ({}, ""),
        ([[]], ""),
        ("text", ""),
    ],
)
def test_the_element_type_of_tensors_sequences_and_maps(value, name):
    assert element_type(value) == name
