# SPDX-License-Identifier: Apache-2.0
"""What one run of a command costs."""

from __future__ import annotations

import resource
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple


class ProcessTime(NamedTuple):
    """The seconds of a process that has ended."""

    wall: float
    cpu: float


def process_time(words: Sequence[str], code: int = 0, cwd: Path | None = None) -> ProcessTime:
    """Runs a command that ends with this exit code, and forgets what it prints."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(words, stdout=subprocess.DEVNULL, check=False, cwd=cwd)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != code:
        raise subprocess.CalledProcessError(done.returncode, words)
    return ProcessTime(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
