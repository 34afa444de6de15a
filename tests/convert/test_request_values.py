# SPDX-License-Identifier: Apache-2.0
"""Options that are mappings are read, or the message shows the correct form."""

from __future__ import annotations

import enum
import fractions
import pathlib

import numpy as np
import pytest
from opshift import BadTarget, Request, convert_version
from opshift.convert.request_values import (
    flag,
    path,
    python_numbers,
    real,
    shapes_of,
    sizes_of,
    types_of,
    whole,
)
from text_models import model


def test_empty_options_are_none():
    for read in (shapes_of, sizes_of, types_of):
        assert read({}) is read(None) is None


def test_shapes_and_sizes_are_sorted_whole_numbers():
    assert list(shapes_of({"b": [1, 0], "a": (2,)}).items()) == [("a", (2,)), ("b", (1, 0))]
    assert shapes_of({"a": []}) == {"a": ()}
    assert list(sizes_of({"n": 0, "b": 2}).items()) == [("b", 2), ("n", 0)]


@pytest.mark.parametrize(
    "dims", ["12", 3, [1.0], [True], [-1], [1 << 63], [None], np.ones(1), np.ones(())]
)
def test_a_shape_is_a_list_of_whole_numbers(dims):
    with pytest.raises(
        BadTarget, match=r"^the shape of 'a' is .*; give a list of whole numbers from 0 to"
    ):
        shapes_of({"a": dims})


@pytest.mark.parametrize("size", ["1", 1.0, True, -1, 1 << 63, None, [1]])
def test_a_size_is_a_whole_number(size):
    with pytest.raises(
        BadTarget, match=r"^the size of dimension 'n' is .*; give a whole number from 0 to"
    ):
        sizes_of({"n": size})


@pytest.mark.parametrize("read", [shapes_of, sizes_of, types_of])
def test_an_option_that_is_no_mapping_is_rejected(read):
    with pytest.raises(BadTarget, match=r"is \['a'\]; give a mapping such as"):
        read(["a"])


@pytest.mark.parametrize(
    ("types", "changes"),
    [
        ({"double": "float"}, {"double": "float"}),
        ({"fp64": "FP32"}, {"double": "float"}),
        ({"int4": "int8", "half": "float"}, {"float16": "float", "int4": "int8"}),
        ({"float8e5*": "float"}, {"float8e5m2": "float", "float8e5m2fnuz": "float"}),
    ],
)
def test_types_have_several_names_and_patterns(types, changes):
    assert list(types_of(types).items()) == list(changes.items())


def test_a_change_of_types_that_is_not_possible_lists_the_possible_ones():
    with pytest.raises(BadTarget, match=r"changes: double=float$"):
        types_of({"double": "int8"})
    with pytest.raises(BadTarget, match=r"changes: bfloat16=float, float16=float, "):
        types_of({"string": "float"})


@pytest.mark.parametrize(
    ("given", "meant"), [(np.int64(13), 13), ({"": np.int32(13)}, {"": 13}), (True, True)]
)
def test_a_number_of_numpy_becomes_a_number_of_python(given, meant):
    assert repr(python_numbers(given)) == repr(meant)


def test_a_version_may_be_a_number_of_numpy():
    proto = model("(float[2,3] x) => (float[2,3] y) { y = Softmax(x) }")
    assert convert_version(proto, np.int64(12)) == convert_version(proto, 12)


class Number(enum.IntEnum):
    THREE = 3


class Word(str, enum.Enum):
    FLOAT = "float"
    DOUBLE = "double"


class Index:
    def __index__(self) -> int:
        return 3


THREES = [3, np.int8(3), np.uint64(3), np.array(3), Number.THREE, Index()]


@pytest.mark.parametrize("three", THREES, ids=lambda three: type(three).__name__)
def test_a_whole_number_of_any_library_is_one_everywhere(three):
    assert type(whole("n", three)) is int
    assert shapes_of({"a": [three, 1]}) == {"a": (3, 1)}
    assert sizes_of({"n": three}) == {"n": 3}
    request = Request({"": three}, ir_version=three, node_budget=three)
    assert (request.target, request.ir_version, request.node_budget) == ({"": 3}, 3, 3)
    assert Request.of(three).target == 3
    assert whole("n", three, 3, 3) == 3
    with pytest.raises(BadTarget, match=r"^n is .*; give a whole number from 4 to 9$"):
        whole("n", three, 4, 9)


@pytest.mark.parametrize(
    "value", ["3", b"3", 3.0, np.float32(3), True, np.True_, None, [3], np.array([3, 3]), 3 + 0j]
)
def test_any_other_value_is_no_whole_number(value):
    with pytest.raises(BadTarget, match=r"^n is .*; give a whole number from 0 to "):
        whole("n", value)


@pytest.mark.parametrize(
    "half", [0.5, np.float16(0.5), np.float64(0.5), np.array(0.5), fractions.Fraction(1, 2)]
)
def test_a_number_of_any_library_is_one(half):
    assert type(real("n", half)) is float
    assert real("n", half, positive=True) == 0.5


@pytest.mark.parametrize(
    "value",
    ["0.5", b"1", True, np.True_, None, [1.0], 1j, np.complex64(1), -1, np.nan, np.inf, 10**400],
)
def test_any_other_value_is_no_number(value):
    with pytest.raises(BadTarget, match=r"^n is .*; give a finite number from 0$"):
        real("n", value)


def test_zero_is_not_above_zero():
    assert real("n", 0) == 0.0
    with pytest.raises(BadTarget, match="above 0"):
        real("n", 0, positive=True)


@pytest.mark.parametrize("value", [True, False, np.True_, np.False_])
def test_a_flag_of_numpy_is_one(value):
    assert flag("n", value) is bool(value)
    assert Request(stamp=value, prune_imports=value).stamp is bool(value)


@pytest.mark.parametrize("value", [1, 0, "yes", "", None, np.int8(1), [True]])
def test_any_other_value_is_no_flag(value):
    with pytest.raises(BadTarget, match=r"^stamp is .*; give True or False$"):
        Request(stamp=value)


def test_a_path_is_a_text_or_has_a_path():
    assert path("src", pathlib.PurePosixPath("a/b")) == path("src", "a/b") == "a/b"
    for value in (b"a", 3, None):
        with pytest.raises(TypeError, match=r"^src must be a path, not "):
            path("src", value)


def test_a_member_of_an_enum_is_its_text():
    assert types_of({Word.DOUBLE: Word.FLOAT}) == {"double": "float"}
