# SPDX-License-Identifier: Apache-2.0
"""The time limits that a run learns from its models."""

from __future__ import annotations

import random

import pytest
from opshift.zoo.workers.learned_limit import (
    ENOUGH,
    EXTRA,
    FIRST,
    FIXED,
    LONGEST,
    PATIENCE,
    SHORTEST,
    LearnedLimit,
)


def learned(*seconds: float, size: int = 0) -> LearnedLimit:
    limit = LearnedLimit()
    for taken in seconds:
        limit.record(size, taken)
    return limit


def test_a_few_models_decide_nothing():
    assert learned(*[0.1] * (ENOUGH - 1)).first(1 << 30) == FIRST


def test_the_limit_follows_the_size_and_the_pace():
    assert learned(*[0.001] * 50).first(0) == SHORTEST
    assert learned(*[1.0] * 50).first(0) == PATIENCE
    assert learned(*[1.0] * 50).first(9 * FIXED) == 10 * PATIENCE
    assert learned(*[1.0] * 50, size=9 * FIXED).first(9 * FIXED) == PATIENCE
    assert learned(*[1.0] * 50).first(1 << 40) == LONGEST


def test_a_few_slow_models_do_not_give_time_to_all():
    assert learned(*[0.01] * 95, *[500.0] * 5).first(0) == SHORTEST


def test_the_models_put_aside_have_ten_minutes_each_if_they_are_few():
    assert [LearnedLimit().last(waiting) for waiting in (1, 2, 6)] == [LONGEST] * 3


@pytest.mark.parametrize("seed", range(20))
def test_all_last_tries_together_take_an_hour_and_as_long_as_the_run_or_a_minute_each(seed):
    chance = random.Random(seed)
    limit = LearnedLimit(spent=chance.choice((0.0, 1e3, 1e5)))
    count = chance.choice((1, 7, 80, 3000))
    total = sum(limit.last(waiting) for waiting in range(count, 0, -1))
    assert total <= max(EXTRA + limit.spent, count * FIRST) + 1
