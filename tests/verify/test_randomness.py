# SPDX-License-Identifier: Apache-2.0
"""Tests which values depend on random numbers, and how such values are compared."""

from __future__ import annotations

import numpy as np
import pytest
from opshift.verify.randomness import drawn, unlike
from text_models import model

DROPOUT = "(float[2] x, bool t) => (float[2] y) { y = Dropout(x, r, t) }"
CALLED = '(float[2] x) => (float[2] y) { y = own.F(x) }\n<opset_import: ["" : 18], domain: "own">\nF (a) => (b) { %s }'


@pytest.mark.parametrize(
    ("text", "opset", "expected"),
    [
        ("(float[2] x) => (float[2] y) { r = RandomNormalLike(x) y = Add(r, x) }", 18, {"r", "y"}),
        ("(float[2] x) => (float[2] y) { r = RandomNormalLike(x) y = Neg(x) }", 18, {"r"}),
        ("(float[2] x) => (float[2] y) { y = RandomUniform<shape = [2]>() }", 18, {"y"}),
        ("(float[2] x) => (float[2] y) { y = Bernoulli(x) }", 18, {"y"}),
        ("(float[2] x) => (float[2] y) { y = Neg(x) }", 18, set()),
        ("(float[2] x) => (float[2] y) { y = own.RandomNormalLike(x) }", 18, set()),
        ("(float[2] x) => (float[2] y) { y = ai.onnx.RandomNormalLike(x) }", 18, {"y"}),
        # Dropout: by its attribute below opset 7, never in 7 to 11, by its third input from 12 on.
        ("(float[2] x) => (float[2] y) { y = Dropout(x) }", 6, {"y"}),
        ("(float[2] x) => (float[2] y) { y = Dropout<is_test = 1>(x) }", 6, set()),
        ("(float[2] x) => (float[2] y) { y = Dropout(x) }", 7, set()),
        ("(float[2] x) => (float[2] y) { y = Dropout(x) }", 13, set()),
        ('(float[2] x) => (float[2] y) { y = Dropout(x, "", "") }', 13, set()),
        ("(float[2] x, bool t) => (float[2] y) { y = Dropout(x, x, t) }", 13, {"y"}),
        ("(float[2] x) => (float[2] y) <bool t = {1}> { y = Dropout(x, x, t) }", 13, {"y"}),
        ("(float[2] x) => (float[2] y) <bool t = {0}> { y = Dropout(x, x, t) }", 13, set()),
        ("(float[2] x, bool t) => (float[2] y) <bool t = {0}> { y = Dropout(x, x, t) }", 13, {"y"}),
        ("(float[2] x) => (float[2] y) { t = Constant<value = bool {0}>() y = Dropout(x, x, t) }",
         13, set()),
        ("(float[2] x) => (float[2] y) { t = Constant<value = bool {1}>() y = Dropout(x, x, t) }",
         13, {"y"}),
        ("(float[2] x, bool c) => (float[2] y) { y = If(c)"
         " <then_branch = t () => (float[2] p) { p = RandomNormalLike(x) },"
         "  else_branch = e () => (float[2] q) { q = Neg(x) }> z = Neg(x) }", 18, {"y"}),
        (CALLED % "b = RandomNormalLike(a)", 18, {"y"}),
        (CALLED % "b = Neg(a)", 18, set()),
    ],
)  # fmt: skip
def test_a_value_is_random_if_a_node_before_it_draws(text, opset, expected):
    assert drawn(model(text, opset, more=', "own" : 1')) == expected


@pytest.mark.parametrize(
    ("expected", "actual", "told"),
    [
        (np.zeros(2, "f4"), np.ones(2, "f4"), ""),
        (np.zeros(2, "f4"), np.ones(3, "f4"), "shape [2] expected, [3] given"),
        ([np.zeros(2, "f4")], [np.ones(2, "f4")], ""),
        ([np.zeros(2, "f4")], [np.ones(2, "f4")] * 2, "length 1 expected, 2 given"),
        ([np.zeros(1, "f4"), np.zeros(2, "f4")], [np.zeros(1, "f4"), np.zeros(3, "f4")],
         "shape [2] expected, [3] given"),
    ],
)  # fmt: skip
def test_random_values_differ_by_type_length_and_shape_only(expected, actual, told):
    assert unlike(expected, actual) == told


def test_random_values_of_another_type_differ():
    told = unlike(np.zeros(2, "f4"), np.zeros(2, "f8"))
    assert "expected" in told
    assert "double" in told or "float64" in told
