# SPDX-License-Identifier: Apache-2.0
"""The five programs of tools/ list their tools, and one table names who runs them and when."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("author", "bench", "conformance", "corpus", "fuzz")


def listed(program: str) -> list[str]:
    words = [sys.executable, "-m", f"tools.{program}", "--help"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    return re.findall(r"^  (\w+) +\S", done.stdout, re.M)


def test_the_tools_are_five_programs():
    names = {path.parent.name for path in (ROOT / "tools").glob("*/__main__.py")}
    assert names == set(PROGRAMS)


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_table_names_every_tool(program):
    rows = re.findall(
        rf"^\| `tools\.{program} (\w+)`", (ROOT / "tools/README.md").read_text(), re.M
    )
    assert sorted(rows) == listed(program) != []


def test_an_unknown_tool_is_named():
    words = [sys.executable, "-m", "tools.author", "branch"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "tools.author has no tool 'branch'; it has branches, browser_page, check" in done.stderr
