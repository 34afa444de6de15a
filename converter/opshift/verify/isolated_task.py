# SPDX-License-Identifier: Apache-2.0
"""The child's side: limits, one task, the answer. Started by `opshift.child_task`."""

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
    """How large the values of a model become."""
    from opshift.verify.magnitudes import magnitudes

    return magnitudes(path, folder, names, inside, large, inputs)


def main() -> None:
    """Runs the job in the folder that the command names, and writes the answer there."""
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
    except ImportError:  # where there are no such limits
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))


TASKS: dict[str, Callable[..., Any]] = {**ENGINES, "magnitudes": magnitudes}
