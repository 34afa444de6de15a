"""A seeded sample of the official tests: equal, or refused for a reason that is accepted."""

from __future__ import annotations

import random
from functools import cache

import numpy as np
import pytest
from conformance import _difference, examine
from conformance_report import DEFECTS, Result, failures, report
from node_tests import NodeTest, official

SAMPLE, SEED = 24, 5


@cache
def sample() -> list[NodeTest]:
    tests = sorted(official([]), key=lambda test: test.name)
    return random.Random(SEED).sample(tests, SAMPLE)


@pytest.mark.parametrize("shape", ["flat", "if", "function"])
def test_a_sample_is_equal_or_refused(shape: str) -> None:
    results = [result for test in sample() for result in examine(test, shape, "opshift")]
    assert {"equal", "refused"} <= {result.outcome for result in results}
    assert not [r for r in results if r.outcome in DEFECTS], "\n".join(failures(results))
    assert not [r for r in results if r.unexcused], "\n".join(report(results, shape))


@pytest.mark.parametrize(
    ("got", "equal"), [(1e-6, True), (1e-4, False), (float("nan"), False), (float("inf"), False)]
)
def test_what_cancels_may_leave_one_rounding_of_the_largest(got: float, equal: bool) -> None:
    test = NodeTest("t", b"", ((), ()), rtol=1e-3, atol=1e-7)
    expected, actual = (np.array([64.0, x], np.float32) for x in (0.0, got))
    assert (_difference([expected], [actual], test) is None) is equal


def test_every_kind_of_outcome_is_told() -> None:
    told = [Result("t", "Add", "", 14, 13, outcome, "because") for outcome in ("wrong", "equal")]
    assert list(failures(told)) == ["wrong: t Add 14->13: because"]
    rows = list(report(told, "title"))
    assert "| down | ai.onnx | 1 | 0 | 0 | 1 | 0 | 0 | 0 |" in rows
