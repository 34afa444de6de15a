# SPDX-License-Identifier: Apache-2.0
"""Law: the path of a conversion changes no result, and one command does what several can do."""

from __future__ import annotations

import random

import pytest
from opshift import convert_version

from tools.fuzz import paths

SEED, SAMPLE = 20261122, 30


def sample() -> list[paths.Journey]:
    """Examples of any adapter in random places, each with random versions."""
    rng = random.Random(SEED)
    return [
        paths.Journey.of(*pair, rng.randrange(1 << 30)) for pair in rng.sample(paths.fit(), SAMPLE)
    ]


@pytest.mark.parametrize("case", sample(), ids=lambda case: f"{case.name} {case.seed}")
def test_the_path_changes_nothing(case: paths.Journey) -> None:
    assert not (told := paths.broken(case)), told


def test_a_path_that_only_several_commands_can_go_is_seen(monkeypatch):
    case = next(one for one in sample() if len(paths.results(one)) > 1)

    def whole_is_refused(model, **wanted):
        if wanted.get("target") == case.goal and wanted.get("ir_version") == case.ir:
            raise paths.OpshiftError("a test")
        return convert_version(model, **wanted)

    monkeypatch.setattr(paths, "convert_version", whole_is_refused)
    told = paths.broken(case)
    assert any("one command is refused" in one for one in told)


def test_numbers_that_depend_on_the_path_are_seen(monkeypatch):
    told = [("given", "a test")]
    compared = (
        one for one in sample() if not one.example.approximate and not paths.explained(one, "given")
    )
    case = next(one for one in compared if paths.ONE_GO in paths.results(one))
    monkeypatch.setattr(paths, "differences", lambda *given: told)
    assert any("the numbers differ: a test" in one for one in paths.broken(case))
