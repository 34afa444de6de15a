# SPDX-License-Identifier: Apache-2.0
"""The same with the pytest plugin of opshift: every example, and one operator by name."""

from __future__ import annotations

import pytest
from opshift.testing import examples

FAST_CONV = {
    "domain": "com.acme",
    "imports": {"": 13},
    "input_shapes": [(1, 1, 4), (1, 1, 3)],
    "output_shapes": [(1, 1, 2)],
}


@pytest.mark.parametrize(("adapter", "example"), examples("acme_opshift"))
def test_example(assert_example, adapter, example):
    assert_example(adapter, example)


@pytest.mark.parametrize("relu", [0, 1])
def test_fast_conv_goes_up(assert_op_upgrades, relu):
    assert_op_upgrades("FastConv", 1, attrs={"relu": relu}, **FAST_CONV)


def test_fast_conv_comes_down(assert_op_downgrades):
    assert_op_downgrades("FastConv", 1, attrs={"activation": "relu"}, **FAST_CONV)
