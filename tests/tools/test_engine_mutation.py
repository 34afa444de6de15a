# SPDX-License-Identifier: Apache-2.0
"""Each change of meaning in two modules of the engine fails a test of the file that is nearest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import opshift
import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("module", ["author.bounds", "model.rename"])
def test_the_nearest_tests_kill_every_mutant(module: str) -> None:
    if not Path(opshift.__file__).is_relative_to(ROOT):
        pytest.skip("an engine that is installed elsewhere is not changed")
    room, _, name = module.partition(".")
    done = subprocess.run(
        [sys.executable, "-m", "tools.author", "engine_mutation", "--count", "0",
         "--modules", module, "--tests", f"tests/{room}/test_{name}.py"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    *lines, last = done.stdout.splitlines()
    survivors = [line for line in lines if line.startswith("survived")]
    assert (done.returncode, survivors) == (0, []), done.stderr
    assert int(last.split(" mutants")[0]) > 15
