"""The driver's side of one child: gives it items, watches it, and says what it died of."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from opshift.zoo import child
from opshift.zoo.child import Named
from opshift.zoo.limits import GRACE, Limits, private_bytes
from opshift.zoo.outcome import Fate, Outcome, shortened

PRELOADED = ["opshift.zoo.warm", "opshift.zoo.task", "opshift.cli"]  # the last: what main imports


@dataclass(slots=True)
class Job:
    """One item and how often it has been tried."""

    item: Named
    attempts: int = 0


class Worker:
    """One child, and the job that it has."""

    def __init__(self, fn: Callable[..., Outcome], limits: Limits) -> None:
        context = _context()
        fd, name = tempfile.mkstemp(prefix="opshift-worker-")
        self.log, self.limits = os.fdopen(fd, "rb"), limits
        self.job: Job | None = None
        self.since, self.served = 0.0, 0
        self.sentence: Fate | None = None
        self.pipe, theirs = context.Pipe()
        listens, self.life = context.Pipe(duplex=False)  # `life` closes with us, however we end
        arguments = (fn, limits, theirs, listens, name)
        self.process = context.Process(target=child.serve, args=arguments, daemon=True)
        with theirs, listens:
            self.process.start()

    def give(self, job: Job) -> None:
        """Sends an item; if nobody is there to take it, the pipe will say so."""
        self.job, self.since = job, time.monotonic()
        self.served += 1
        job.attempts += 1
        try:
            self.pipe.send(job.item)
        except OSError:
            self.sentence = Fate.LOST

    def watch(self) -> None:
        """Kills a child that the kernel has not stopped at its limits."""
        cap = self.limits.megabytes
        if self.job and time.monotonic() > self.since + self.limits.seconds + GRACE:
            self.sentence = Fate.TIMEOUT
        elif cap is not None and private_bytes(self.process.pid) > cap << 20:
            self.sentence = Fate.OOM
        else:
            return
        self.process.kill()

    def autopsy(self, name: str) -> Outcome:
        """What a child died of, once its end of the pipe has closed."""
        self.process.join(1.0)
        self.process.kill()
        self.process.join()
        code = self.process.exitcode or 0
        why = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        fate = self.sentence or (Fate.TIMEOUT if why == "SIGALRM" else Fate.CRASHED)
        if fate is Fate.TIMEOUT:
            why = f"not finished in {self.limits.seconds:g} s"
        elif fate is Fate.OOM:
            why = f"more than {self.limits.megabytes} MiB"
        said = self._last_words()
        return Outcome(name, fate, why, shortened(f"{why}: {said}" if said else why))

    def _last_words(self) -> str:
        self.log.seek(max(0, os.fstat(self.log.fileno()).st_size - 4096))
        lines = self.log.read().decode(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else ""

    def close(self) -> None:
        """Ends the child; what it has sent is already here."""
        self.pipe.close()
        self.life.close()
        self.process.kill()
        self.process.join()
        self.log.close()


def _context() -> Any:
    """Children start from a server that has the slow imports done, where there is fork."""
    if sys.platform == "win32":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context
