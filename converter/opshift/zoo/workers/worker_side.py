# SPDX-License-Identifier: Apache-2.0
"""Runs in the child process: receives items through a pipe and sends outcomes back."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Protocol

from opshift import terms
from opshift.child_limits import STOPS, alarm, cap_memory, die_with
from opshift.zoo.outcome import Fate, Outcome, shortened
from opshift.zoo.workers.limits import ModelLimits


class Sized(Protocol):
    """An item with a name and an estimated size in bytes."""

    @property
    def name(self) -> str: ...
    @property
    def size(self) -> int: ...


def serve(
    fn: Callable[..., Outcome], limits: ModelLimits, pipe: Connection, life: Connection, log: str,
    path: list[str], caller: terms.Caller,
) -> None:  # fmt: skip
    """Converts items until the pipe closes; only the parent process reacts to signals."""
    for number in STOPS:
        signal.signal(number, signal.SIG_IGN)
    # the forkserver would keep the caller of its own start
    os.environ[terms.VARIABLE] = caller.value
    sys.path[:] = path  # multiprocessing adds the working folder if the driver has it in its path
    _write_to(log)
    die_with(life)
    cap_memory(limits.megabytes)
    gc.freeze()  # objects that the collector does not touch stay in memory that processes share
    while True:
        try:
            item, seconds = pipe.recv()
        except (EOFError, OSError):
            return
        if os.fstat(1).st_size:
            os.ftruncate(1, 0)
        alarm(seconds)
        outcome = _call(fn, item)
        alarm(0)
        pipe.send_bytes(pickle.dumps(outcome))


def _write_to(log: str) -> None:
    """Sends the output of native code to a log file, which is deleted when it is closed."""
    fd = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    os.close(fd)
    if os.name != "nt":
        os.unlink(log)


def _call(fn: Callable[..., Outcome], item: Sized) -> Outcome:
    try:
        return fn(item)
    except MemoryError:
        return Outcome(
            item.name, Fate.OOM, "MemoryError", "an allocation above the memory limit failed"
        )
    except Exception as error:
        kind = type(error).__name__
        return Outcome(item.name, Fate.CRASHED, kind, shortened(f"{kind}: {error}"))
