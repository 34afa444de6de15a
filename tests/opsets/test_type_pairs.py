# SPDX-License-Identifier: Apache-2.0
"""Changes of element types, by the names of ONNX, numpy and torch."""

from __future__ import annotations

import numpy as np
import pytest
from opshift.convert.request_values import types_of
from opshift.errors import BadTarget
from opshift.opsets.elements import ELEMENTS
from opshift.opsets.type_pairs import BY_NAMES, OTHER_NAMES, name_of_type, replacements


def test_another_name_of_a_type_requests_the_same_change():
    assert types_of({"float32": "fp16"}) == types_of({"float": "float16"}) == {"float": "float16"}
    assert types_of({"BF16": "Float32"}) == {"bfloat16": "float"}


def test_each_name_of_numpy_is_the_type_with_this_numpy_type():
    for word in ("float32", "float64"):
        (row,) = [row for row in ELEMENTS.values() if row.number.name.lower() == name_of_type(word)]
        assert np.dtype(row.numpy) == np.dtype(word)
    assert set(OTHER_NAMES.values()) <= {name for pair in BY_NAMES for name in pair}


def test_a_refused_change_names_the_possible_changes_of_its_type():
    with pytest.raises(BadTarget, match=r"possible changes: float=double, float=float16$"):
        types_of({"float32": "int8"})
    with pytest.raises(BadTarget, match=r"possible changes: .*int64=int32"):
        types_of({"string": "int8"})


def test_the_replacements_of_a_type_are_those_that_a_request_may_name():
    assert replacements("float") == ["double", "float16"]
    assert replacements("string") == []
