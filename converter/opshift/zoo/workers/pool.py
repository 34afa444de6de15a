# SPDX-License-Identifier: Apache-2.0
"""Starts a process next to a worker of a cluster, for all parts of the batch on the worker."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading

from opshift import child_python
from opshift.zoo.outcome import Outcome

IDLE = 60.0  # the process ends after this number of seconds without a shard


class Pool:
    """A process that runs parts of a batch in turn, and ends together with this process."""

    def __init__(self) -> None:
        fds = list[int]()
        if sys.platform != "win32":
            listens, life = os.pipe()
            fds.append(listens)
            # the kernel closes this end when this process ends, for whatever reason
            self.life = os.fdopen(life, "wb")
        self.process = subprocess.Popen(
            child_python.command("opshift.zoo.workers.shard", *map(str, fds)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=fds,
        )
        for fd in fds:
            os.close(fd)

    def run(self, work: bytes) -> list[Outcome]:
        """Returns the outcomes of a part of a batch; raises if the process has ended."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        pickle.dump(work, self.process.stdin)
        self.process.stdin.flush()
        try:
            outcomes: list[Outcome] = pickle.load(self.process.stdout)
        except EOFError:
            code = self.process.wait()
            raise RuntimeError(
                f"the process for a part of the batch ended with exit code {code}"
            ) from None
        return outcomes


_mine = threading.local()  # a worker may have several threads, each with a shard of its own


def elsewhere(work: bytes) -> list[Outcome]:
    """Runs a part of a batch in a separate process, because workers of a cluster may not fork."""
    if not hasattr(_mine, "pool") or _mine.pool.process.poll() is not None:
        _mine.pool = Pool()
    outcomes: list[Outcome] = _mine.pool.run(work)
    return outcomes
