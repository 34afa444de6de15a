# SPDX-License-Identifier: Apache-2.0
"""Law: the path of a conversion changes no result, and one command does what several can do."""

from __future__ import annotations

import os
import random

import journeys
import pytest
from opshift import convert_version

SEED, SAMPLE = 20261129, int(os.environ.get("OPSHIFT_PATHS", "12"))


def sample() -> list[journeys.Journey]:
    """Examples of any adapter in random places, each with random versions."""
    rng = random.Random(SEED)
    return [
        journeys.Journey.of(*pair, rng.randrange(1 << 30))
        for pair in rng.sample(journeys.fit(), SAMPLE)
    ]


@pytest.mark.parametrize("case", sample(), ids=lambda case: f"{case.name} {case.seed}")
def test_the_path_changes_nothing(case: journeys.Journey) -> None:
    assert not (told := journeys.broken(case)), told


@pytest.mark.xfail(strict=True, reason="one command does not try the IR version first here")
def test_a_slice_in_a_function_goes_down_in_one_command() -> None:
    pair = next(
        (adapter, example)
        for adapter, example in journeys.fit()
        if (*adapter.ops, adapter.start, adapter.to) == ("Slice", 10, 9)
        and example.title == "from the end, int32"
    )
    assert not journeys.broken(journeys.Journey.of(*pair, 840051333))


def test_a_path_that_only_several_commands_can_go_is_seen(monkeypatch):
    case = next(one for one in sample() if len(journeys.results(one)) > 1)

    def whole_is_refused(model, **wanted):
        if wanted.get("target") == case.goal and wanted.get("ir_version") == case.ir:
            raise journeys.OpshiftError("a test")
        return convert_version(model, **wanted)

    monkeypatch.setattr(journeys, "convert_version", whole_is_refused)
    told = journeys.broken(case)
    assert any("one command is refused" in one for one in told)


def test_numbers_that_depend_on_the_path_are_seen(monkeypatch):
    told = [("given", "a test")]
    compared = (
        one
        for one in sample()
        if not one.example.approximate and not journeys.explained(one, "given")
    )
    case = next(one for one in compared if journeys.ONE_GO in journeys.results(one))
    monkeypatch.setattr(journeys, "differences", lambda *given: told)
    assert any("the numbers differ: a test" in one for one in journeys.broken(case))
