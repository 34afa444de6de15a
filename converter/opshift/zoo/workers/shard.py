# SPDX-License-Identifier: Apache-2.0
"""Supervises the conversion of shards, in a process that a worker of a cluster has started."""

from __future__ import annotations

import os
import pickle
import select
import signal
import sys
from multiprocessing.connection import Connection
from typing import BinaryIO

from opshift.child_limits import STOPS, die_with
from opshift.zoo.workers.pool import IDLE
from opshift.zoo.workers.shards import unpacked
from opshift.zoo.workers.supervisor import Supervisor


def main() -> None:
    """Reads shards from stdin and writes their outcomes until stdin ends."""
    for number in STOPS:
        signal.signal(number, signal.SIG_IGN)  # only the driver decides when to stop
    # the signal arrives only while the pipe is open
    life = Connection(int(sys.argv[1]), writable=False) if len(sys.argv) > 1 else None
    if life is not None:
        die_with(life)
    answer = os.dup(1)
    os.dup2(2, 1)  # printed text goes to stderr, because stdout is for outcomes
    with os.fdopen(answer, "wb") as file:
        _serve(file)


def _serve(file: BinaryIO) -> None:
    """Runs the shards, and ends their child processes in any case."""
    current, supervisor = None, Supervisor(1)
    try:
        while _wanted():
            try:
                work = pickle.load(sys.stdin.buffer)
            except EOFError:
                return
            fn, limits, shard = unpacked(work)
            # a new function gets a new supervisor, so that its children have no earlier state
            if fn is not current:
                supervisor.close()
                current, supervisor = fn, Supervisor(1, limits)
            pickle.dump(list(supervisor.work(fn, shard)), file)
            file.flush()
    finally:
        supervisor.close()  # else Python waits at its exit for a child that ignores signals


def _wanted() -> bool:
    return sys.platform == "win32" or bool(select.select([0], [], [], IDLE)[0])
