# SPDX-License-Identifier: Apache-2.0
"""Options that are mappings are read, or the message shows how to write them."""

from __future__ import annotations

import numpy as np
import pytest
from opshift import BadTarget, convert_version
from opshift.convert.request_values import python_numbers, shapes_of, sizes_of, types_of
from text_models import model


def test_empty_options_are_none():
    for read in (shapes_of, sizes_of, types_of):
        assert read({}) is read(None) is None


def test_shapes_and_sizes_are_sorted_whole_numbers():
    assert list(shapes_of({"b": [1, 0], "a": (2,)}).items()) == [("a", (2,)), ("b", (1, 0))]
    assert shapes_of({"a": []}) == {"a": ()}
    assert list(sizes_of({"n": 0, "b": 2}).items()) == [("b", 2), ("n", 0)]


@pytest.mark.parametrize("dims", ["12", 3, [1.0], [True], [-1], [1 << 63], [None], np.ones(1, int)])
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
