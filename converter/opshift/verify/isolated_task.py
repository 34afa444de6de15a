# SPDX-License-Identifier: Apache-2.0
"""Runs one task in a child process that `opshift.child_task` has started, with its limits."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from opshift.verify.engine_runs import ENGINES, sentence


def magnitudes(
    path: str, folder: str, names: Sequence[str], inside: bool, large: bool, inputs: str
) -> Any:
    """Returns the largest magnitudes of the values of a model."""
    from opshift.verify.magnitudes import magnitudes

    return magnitudes(path, folder, names, inside, large, inputs)


def main() -> None:
    """Runs the job that is stored in the folder `sys.argv[1]`, and writes its answer there."""
    folder = sys.argv[1]
    task, args, megabytes = pickle.loads(Path(folder, "job").read_bytes())
    _limit(megabytes)
    try:
        answer = (TASKS[task](*args), "")
    except Exception as error:
        answer = ([], sentence(error))
    part = Path(folder, "part")
    part.write_bytes(pickle.dumps(answer))
    os.replace(part, Path(folder, "answer"))


def _limit(megabytes: int) -> None:
    try:
        import resource
    except ImportError:  # this system has no resource limits
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))


TASKS: dict[str, Callable[..., Any]] = {**ENGINES, "magnitudes": magnitudes}
