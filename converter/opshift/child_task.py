# SPDX-License-Identifier: Apache-2.0
"""Runs one task in a child process with limits; a crash of the child becomes an error text."""

from __future__ import annotations

import pickle
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from opshift import child_python
from opshift.records import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of time and memory for a child process."""

    seconds: float = 300
    megabytes: int = 8192


@dataclass(frozen=True, slots=True)
class ChildAnswer:
    """The answer of a child process, or the reason why there is no answer."""

    value: Any = None
    error: str = ""


def run(module: str, task: str, *args: Any, limits: Limits) -> ChildAnswer:
    """Runs `main` of a module in a new Python process, which calls the named task."""
    with tempfile.TemporaryDirectory(prefix="opshift-", ignore_cleanup_errors=True) as folder:
        Path(folder, "job").write_bytes(pickle.dumps((task, args, limits.megabytes)))
        log = Path(folder, "log")
        try:
            with log.open("wb") as file:
                done = subprocess.run(
                    child_python.command(module, folder),
                    stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                    timeout=limits.seconds, check=False,
                )  # fmt: skip
        except subprocess.TimeoutExpired:
            return ChildAnswer(error=f"not finished within the limit of {limits.seconds:g} s")
        answer = Path(folder, "answer")
        if answer.exists() and done.returncode == 0:
            value, error = pickle.loads(answer.read_bytes())
            return ChildAnswer(value, error)
        return ChildAnswer(error=_death(done.returncode, log.read_text(errors="replace")))


def _death(code: int, log: str) -> str:
    """Returns the signal or exit code that ended a child process, and the last line it printed."""
    reason = f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
    return ": ".join([reason, *log.strip().splitlines()[-1:]])
