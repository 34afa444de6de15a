# SPDX-License-Identifier: Apache-2.0
"""Finds the Python interpreters of this machine."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path


def numbers(version: str) -> tuple[int, ...]:
    """Returns the numbers of a version, for comparisons."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


@functools.cache
def pythons() -> dict[str, str]:
    """Returns interpreters by minor version: from PATH, from pyenv, and this interpreter."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    by_version: dict[str, str] = {}
    named = [shutil.which(f"python3.{minor}") for minor in range(6, 20)]
    there = sorted(root.glob("*/bin/python"), key=lambda path: numbers(path.parts[-3]))
    for path in [*named, *map(str, reversed(there)), sys.executable]:
        if path is None:
            continue
        code = "import sys; print('%d.%d' % sys.version_info[:2])"
        try:
            done = subprocess.run([path, "-c", code], capture_output=True, text=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:  # a pyenv shim only works for versions that are activated
            by_version.setdefault(done.stdout.strip(), path)
    return by_version
