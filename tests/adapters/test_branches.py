# SPDX-License-Identifier: Apache-2.0
"""Every branch of an adapter is taken by an example; the tool that says so can say no."""

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
    """In a process of its own, where no adapter has been imported before it is measured."""
    pytest.importorskip("coverage", reason="coverage is not installed")
    tool = [sys.executable, "-m", "tools.author", "branches", *files]
    return subprocess.run(tool, capture_output=True, text=True, cwd=ROOT)


def test_every_branch_of_a_file_is_taken_by_an_example() -> None:
    """A branch without an example is code that no number has proved.

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
