# SPDX-License-Identifier: Apache-2.0
"""Runs one call in a child process with limits, so that a crash or a leak there is a plain answer.

`fork` children start from a server that has converted once, so that the imports and the reading
of all adapters are done; `spawn` children start from nothing, so that what they measure is theirs.
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
Start = Literal["fork", "spawn"]

# multiprocessing reaps all children whenever one starts; two threads must not do so at once.
_reaping = threading.Lock()


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """What became of one call: a value, an exception told as text, a timeout or a crash."""

    status: Literal["ok", "raised", "timeout", "crashed"]
    value: Any = None
    error: str = ""
    message: str = ""
    trace: str = ""

    @property
    def ok(self) -> bool:
        """Whether the call returned."""
        return self.status == "ok"

    def __str__(self) -> str:
        return f"{self.error}: {self.message}" if self.error else self.message or self.status


def run(
    task: Callable[..., Any],
    *args: Any,
    seconds: float,
    megabytes: int | None = None,
    start: Start = "fork",
) -> CallOutcome:
    """Call `task(*args)` in a child that may use that much time and address space."""
    context: Any = multiprocessing.get_context("forkserver" if start == "fork" else "spawn")
    context.set_forkserver_preload(PRELOADED)
    ours, theirs = context.Pipe(duplex=False)
    with tempfile.NamedTemporaryFile(prefix="child-") as log, contextlib.closing(ours):
        process = context.Process(target=_child, args=(theirs, log.name, megabytes, task, args))
        with _reaping:
            process.start()
        theirs.close()
        outcome = _receive(ours, seconds)
        if outcome is None or outcome.status == "timeout":
            process.kill()
        with _reaping:
            process.join()
        return outcome or _crashed(process.exitcode, Path(log.name).read_text(errors="replace"))


def _receive(ours: Connection, seconds: float) -> CallOutcome | None:
    """Wait for the child's answer; None when it went away without one."""
    if not ours.poll(seconds):
        return CallOutcome("timeout", message=f"not finished in {seconds:g} s")
    try:
        return ours.recv()  # type: ignore[no-any-return]
    except (EOFError, ConnectionResetError):
        return None


def _crashed(code: int | None, log: str) -> CallOutcome:
    """Name the signal that ended the child, and the last line it wrote."""
    reason = f"exit code {code}"
    if code is not None and code < 0:
        reason = signal.Signals(-code).name
    last = log.strip().splitlines()[-1:]
    return CallOutcome("crashed", message=": ".join([reason, *last]), trace=log)


def _child(
    theirs: Connection,
    log: str,
    megabytes: int | None,
    task: Callable[..., Any],
    args: tuple[Any, ...],
) -> None:
    """The child's side: limits, the call, the answer."""
    with open(log, "wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if megabytes is not None:
        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
    try:
        outcome = CallOutcome("ok", task(*args))
    except Exception as error:
        name, text = type(error).__name__, str(error)
        outcome = CallOutcome("raised", None, name, text, traceback.format_exc())
    theirs.send(outcome)
