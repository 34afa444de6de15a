# SPDX-License-Identifier: Apache-2.0
"""Both distributions of the project, built from a copy, because a build leaves files there."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (".ci", ".github", "adapters", "converter", "docs", "examples", "tests", "tools")
BUILD = "import sys; from setuptools import build_meta; build_meta.build_{}(sys.argv[1])"


def build(folder: Path, *kinds: str) -> Path:
    """The folder with the distributions: `sdist`, `wheel` or both."""
    copy, out = folder / "tree", folder / "dist"
    copy.mkdir()
    for path in ROOT.iterdir():
        if path.is_file() and path.name != ".git":
            shutil.copy(path, copy)
    for name in FOLDERS:
        leave = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / name, copy / name, ignore=leave)
    for kind in kinds:
        words = [sys.executable, "-c", BUILD.format(kind), str(out)]
        done = subprocess.run(words, cwd=copy, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return out
