# SPDX-License-Identifier: Apache-2.0
"""A random sample of the official tests: equal, or refused for an accepted reason."""

from __future__ import annotations

import random
from functools import cache

import official_nodes
import pytest

from tools.conformance.node_tests import NodeTest, official
from tools.conformance.nodes import examine
from tools.conformance.target_tables import DEFECTS, TargetResult, failures, report

SAMPLES, SEED = {"flat": 5, "if": 2, "function": 2}, 5


@cache
def node_tests() -> list[NodeTest]:
    official_nodes.collected()
    return sorted(official([]), key=lambda test: test.name)


def sample(shape: str) -> list[NodeTest]:
    """Each shape has another sample; `python -m tools.conformance nodes` examines all tests."""
    return random.Random(f"{SEED} {shape}").sample(node_tests(), SAMPLES[shape])


@pytest.mark.parametrize("shape", ["flat", "if", "function"])
def test_a_sample_is_equal_or_refused(shape: str) -> None:
    """Only the official data were not written for opshift; the tool that reads them works."""
    results = [result for test in sample(shape) for result in examine(test, shape)]
    outcomes = {result.outcome for result in results}
    assert outcomes >= ({"equal", "refused"} if shape == "flat" else {"equal"})
    assert not [r for r in results if r.outcome in DEFECTS], "\n".join(failures(results))
    if shape != "function":  # whose body does not know the shapes that some forms need
        assert not [r for r in results if r.unexcused], "\n".join(report(results, shape))


def test_what_cancels_in_a_transform_is_rounding() -> None:
    (test,) = official(["test_dft_inverse"])
    assert {r.outcome for r in examine(test, "flat")} <= {"equal", "refused"}


def test_every_kind_of_outcome_is_told() -> None:
    told = [
        TargetResult("t", "Add", "", 14, 13, outcome, "because") for outcome in ("wrong", "equal")
    ]
    assert list(failures(told)) == ["wrong: t Add 14->13: because"]
    rows = list(report(told, "title"))
    assert "| down | ai.onnx | 1 | 0 | 0 | 1 | 0 | 0 | 0 |" in rows
