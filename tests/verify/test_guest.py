# SPDX-License-Identifier: Apache-2.0
"""The arrays that the program in another Python gives to a runtime."""

import numpy as np
import pytest
from opshift.verify import guest


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("float64", "float32"), ("float16", "float32"), ("float32", "float32"), ("int64", "int32"),
        ("int8", "int32"), ("bool", "int32"), ("uint8", "uint8"),
    ],
)  # fmt: skip
def test_mnn_gets_an_array_of_one_of_its_types(given: str, expected: str) -> None:
    for value in (np.array([[0, 1], [1, 0]], given).T, np.array(1, given)):
        array = guest.mnn_array(value)
        assert array.dtype == expected
        np.testing.assert_array_equal(array, value)
        assert array.flags.c_contiguous
