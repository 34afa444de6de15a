# SPDX-License-Identifier: Apache-2.0
"""Some example takes each branch of an adapter; the tool that checks this finds missing ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import opshift_adapters
import pytest

import examples

SAMPLE = ("layout/squeeze",)
ROOT = Path(__file__).parents[2]
if not Path(opshift_adapters.__path__[0]).is_relative_to(ROOT):
    pytest.skip("adapters that are installed elsewhere are not measured", allow_module_level=True)


def branches(*files: str) -> subprocess.CompletedProcess[str]:
    """Lists the branches that no example takes, in a process that has not imported an adapter."""
    pytest.importorskip("coverage", reason="coverage is not installed")
    tool = [sys.executable, "-m", "tools.author", "branches", *files]
    return subprocess.run(tool, capture_output=True, text=True, cwd=ROOT)


def test_every_branch_of_a_file_is_taken_by_an_example() -> None:
    """No result of a test depends on a branch without an example.

    `python -m tools.author check` measures all files.
    """
    if any(examples.too_new(case) for case in examples.cases()):
        pytest.skip("the installed onnx is older than some examples")
    told = branches(*SAMPLE)
    assert told.returncode == 0, told.stdout + told.stderr


def test_a_branch_that_no_example_takes_is_named() -> None:
    told = branches("scales")  # a file without examples of its own
    assert told.returncode == 1, told.stderr
    assert "adapters/opshift_adapters/_lib/scales.py:" in told.stdout
    assert "Add an @example that reaches the line" in told.stdout


def test_only_files_of_adapters_are_asked_for() -> None:
    told = branches("scale")
    assert (told.returncode, told.stdout) == (2, "")
    assert "there is no file of adapters 'scale'" in told.stderr
