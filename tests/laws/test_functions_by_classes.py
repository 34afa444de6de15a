# SPDX-License-Identifier: Apache-2.0
"""Law: a model with functions has one result, whether its classes tell it or its nodes."""

from __future__ import annotations

import random

import effort
import onnx
import pytest
from by_classes import why_not
from graphs import NEWEST, models
from hypothesis import event, given
from hypothesis import strategies as st
from opshift.convert.quotient import conversion
from opshift.convert.request import Request
from outlined import outlined

import examples


@pytest.fixture(autouse=True)
def _few_nodes_of_a_class(monkeypatch):
    monkeypatch.setattr(conversion, "ALIKE", 1)


@effort.seeded
@given(models(), st.integers(7, NEWEST), st.integers(), st.integers(1, 2))
def test_random_models_with_functions(model, to, seed, times):
    rng = random.Random(seed)
    for _ in range(times):
        model = outlined(model, rng)
    event(why_not(model, Request(to)) or "by classes")


@pytest.mark.parametrize("share", range(4))
def test_a_sample_of_the_examples_in_functions(share):
    rng, told = random.Random(share), 0
    for case in rng.sample(examples.cases(), 60):
        try:
            model = outlined(examples.model_of(case), rng)
        except onnx.parser.ParseError:  # types that an older onnx lacks
            continue
        told += not why_not(model, Request(rng.randint(7, NEWEST)))
    assert told > 5
