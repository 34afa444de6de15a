# SPDX-License-Identifier: Apache-2.0
"""Runs one call in a child process with limits; a crash or a leak becomes its outcome.

`fork` children start from a server that has imported all modules and read the adapters; `spawn`
children start a new interpreter, so that their measurements are independent.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import signal
import tempfile
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

PRELOADED = ["onnx.reference", "opshift.verify.oracle", "opshift.zoo.workers.warm"]

# multiprocessing reaps all children whenever it starts one; two threads must not do so together.
_reaping = threading.Lock()


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """The value of a call, or an error text: an exception, a crash or a timeout."""

    value: Any = None
    error: str = ""
    trace: str = ""
    late: bool = False


def run(
    task: Callable[..., Any], *args: Any, seconds: float, megabytes: int | None = None,
    start: Literal["fork", "spawn"] = "fork",
) -> CallOutcome:  # fmt: skip
    """Calls `task(*args)` in a child process with a limit of time and address space."""
    context: Any = multiprocessing.get_context("forkserver" if start == "fork" else "spawn")
    context.set_forkserver_preload(PRELOADED)
    ours, theirs = context.Pipe(duplex=False)
    with tempfile.NamedTemporaryFile(prefix="child-") as log, contextlib.closing(ours):
        process = context.Process(target=_child, args=(theirs, log.name, megabytes, task, args))
        with _reaping:
            process.start()
        theirs.close()
        outcome = None
        if not ours.poll(seconds):
            outcome = CallOutcome(error=f"not finished in {seconds:g} s", late=True)
            process.kill()
        else:
            with contextlib.suppress(EOFError, ConnectionResetError):
                outcome = ours.recv()
        with _reaping:
            process.join()
        return outcome or _crashed(process.exitcode, Path(log.name).read_text(errors="replace"))


def _crashed(code: int, log: str) -> CallOutcome:
    """Describes how the child process ended: its signal or exit code, and its last line."""
    reason = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return CallOutcome(error=": ".join([reason, *log.strip().splitlines()[-1:]]), trace=log)


def _child(
    theirs: Connection, log: str, megabytes: int | None, task: Callable[..., Any], args: Any
) -> None:
    """Runs in the child process: sets limits, makes the call, sends the outcome."""
    with open(log, "wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if megabytes is not None:
        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
    try:
        outcome = CallOutcome(task(*args))
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        outcome = CallOutcome(error=message, trace=traceback.format_exc())
    theirs.send(outcome)
