# SPDX-License-Identifier: Apache-2.0
"""Mutants of engine modules fail a test of the nearest test file."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import opshift
import pytest
from opshift.testing.surveys import reasons

from tools.author import engine_mutation, mutants

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("modules", "count"),
    [
        ("author.bounds model.rename", 0),
        ("author.facts convert.guard model.arrays opsets.types author.declared", 12),
    ],
)
def test_the_nearest_tests_kill_every_mutant(modules: str, count: int) -> None:
    """A count of 0 means all mutants."""
    if not Path(opshift.__file__).is_relative_to(ROOT):
        pytest.skip("an engine that is installed elsewhere is not changed")
    done = subprocess.run(
        [sys.executable, "-m", "tools.author", "engine_mutation", "--count", str(count),
         "--modules", *modules.split()],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    *lines, last = done.stdout.splitlines()
    survivors = [line for line in lines if line.startswith("survived")]
    assert (done.returncode, survivors) == (0, []), done.stderr
    assert int(last.split(" mutants")[0]) > 9


def test_every_equivalent_mutant_is_a_mutant() -> None:
    known = set(reasons(engine_mutation.EQUIVALENT))
    read = {name.partition(" ")[0] for name in known}
    every = (mutants.mutants(importlib.import_module(f"opshift.{name}")) for name in read)
    found = {one.title for of_module in every for one in of_module}
    assert sorted(known - found) == []
