"""The same with `opshift.testing`: every example, every crossing, and one operator by name."""

from __future__ import annotations

import pytest
from onnx.reference import ReferenceEvaluator
from opshift.testing import assert_complete, assert_example, assert_op_upgrades, examples
from test_fast_conv import FastConv


def evaluate(model, inputs):
    """What opshift's own judge has never heard of, computed by the vendor."""
    return ReferenceEvaluator(model, new_ops=[FastConv]).run(None, dict(inputs))


@pytest.mark.parametrize(("adapter", "example"), examples("acme_opshift"))
def test_example(adapter, example):
    assert_example(adapter, example, evaluate=evaluate)


def test_every_crossing_has_a_verdict():
    assert_complete("acme_opshift")


@pytest.mark.parametrize("relu", [0, 1])
def test_fast_conv_goes_up(relu):
    assert_op_upgrades(
        "FastConv", 1, domain="com.acme", imports={"": 13}, attrs={"relu": relu},
        input_shapes=[(1, 1, 4), (1, 1, 3)], output_shapes=[(1, 1, 2)], evaluate=evaluate,
    )  # fmt: skip
