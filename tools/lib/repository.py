# SPDX-License-Identifier: Apache-2.0
"""The commit of the code that a tool measures."""

from __future__ import annotations

import subprocess
from pathlib import Path

TOP = Path(__file__).parents[2]
MEASURED = ("converter", "adapters")


def commit(top: Path = TOP) -> str:
    """The short name of the commit; with "+" behind it if its converter or adapters are changed."""
    head = _git(top, "rev-parse", "--short", "HEAD")
    if not head:
        return "unknown"
    return head + ("+" if _git(top, "status", "--porcelain", "--", *MEASURED) else "")


def _git(top: Path, *words: str) -> str:
    """What git prints; nothing where there is no git or no repository."""
    try:
        done = subprocess.run(["git", *words], cwd=top, capture_output=True, text=True)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
