# SPDX-License-Identifier: Apache-2.0
"""An installed package of another vendor changes nothing in these tests."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GROUPS = "adapters changelogs opsets schemas targets"
SAMPLE = (
    "tests/adapters/test_homes.py",
    "tests/integrate/test_vendor.py::test_its_page",
    "tests/testing/test_plugin.py::test_nothing_is_imported_for_those_who_do_not_use_it",
)
"""Tests that read all adapters here, that start a command, or that start pytest."""
HOSTILE = 'raise SystemExit("a package of another vendor was imported")\n'


@pytest.fixture
def hostile(tmp_path: Path) -> dict[str, str]:
    """Returns an environment with an installed package that fails whenever it is used."""
    groups = {f"opshift.{group}": "hostile_vendor" for group in GROUPS.split()}
    groups["pytest11"] = "hostile_vendor"
    place = tmp_path / "hostile_vendor-1.0.dist-info"
    place.mkdir()
    (tmp_path / "hostile_vendor.py").write_text(HOSTILE)
    (place / "METADATA").write_text("Metadata-Version: 2.1\nName: hostile-vendor\nVersion: 1.0\n")
    lines = [f"[{group}]\nhostile = {module}\n" for group, module in groups.items()]
    (place / "entry_points.txt").write_text("\n".join(lines))
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    ours = ("OPSHIFT_", "PYTEST_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**clean, "PYTHONPATH": path}


def run(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *words]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


def test_the_package_is_hostile(hostile: dict[str, str]) -> None:
    """Without this test, the next one could pass because nothing loads the package."""
    done = run(hostile, "opshift", "adapters", "Relu")
    assert "another vendor was imported" in done.stderr
    left_out = run({**hostile, "OPSHIFT_IGNORE": "Hostile-Vendor"}, "opshift", "adapters", "Relu")
    assert left_out.returncode == 0, left_out.stderr
    done = run(hostile, "pytest", "-c", os.devnull, "--collect-only", os.devnull)
    assert "another vendor was imported" in done.stdout + done.stderr


def test_a_hostile_package_changes_nothing(hostile: dict[str, str]) -> None:
    """Otherwise, results would depend on installed packages; child processes are isolated too."""
    done = run(hostile, "pytest", "-p", "no:cacheprovider", "-n", "1", *SAMPLE)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_group_of_ours_is_hostile_there() -> None:
    """The hostile package must have an entry point in each group of opshift."""
    source = "".join(path.read_text() for path in (ROOT / "converter").rglob("*.py"))
    named = {f'GROUP = "opshift.{group}"' for group in GROUPS.split()}
    assert source.count('GROUP = "opshift.') == len(named)
    assert all(line in source for line in named)


def test_the_plugin_is_installed_by_its_entry_point() -> None:
    """All other tests name the plugin, so only this test shows that pytest finds it."""
    named = {point.value for point in entry_points(group="pytest11")}
    assert "opshift.testing.plugin" in named
