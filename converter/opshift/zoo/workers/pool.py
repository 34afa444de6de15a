# SPDX-License-Identifier: Apache-2.0
"""A process next to a worker of a cluster, which supervises all shards of that worker."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading

from opshift import child_python
from opshift.zoo.outcome import Outcome

IDLE = 60.0  # seconds without a shard after which the process ends


class Pool:
    """A process that works on one shard after another, and ends with this process."""

    def __init__(self) -> None:
        fds = list[int]()
        if sys.platform != "win32":
            listens, life = os.pipe()
            fds.append(listens)
            self.life = os.fdopen(life, "wb")  # closes with us, however we end
        self.process = subprocess.Popen(
            child_python.command("opshift.zoo.workers.shard", *map(str, fds)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=fds,
        )
        for fd in fds:
            os.close(fd)

    def run(self, work: bytes) -> list[Outcome]:
        """The outcomes of a shard; raises if the process has ended."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        pickle.dump(work, self.process.stdin)
        self.process.stdin.flush()
        try:
            outcomes: list[Outcome] = pickle.load(self.process.stdout)
        except EOFError:
            code = self.process.wait()
            raise RuntimeError(f"the shard's process ended with {code}") from None
        return outcomes


_mine = threading.local()  # an engine's worker may have threads, each with a shard of its own


def elsewhere(work: bytes) -> list[Outcome]:
    """Works on a shard in a process of its own, because workers of engines may not fork."""
    if not hasattr(_mine, "pool") or _mine.pool.process.poll() is not None:
        _mine.pool = Pool()
    outcomes: list[Outcome] = _mine.pool.run(work)
    return outcomes
