# SPDX-License-Identifier: Apache-2.0
"""The driver's side of one child: gives it items, watches it, and reports why it died."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from multiprocessing import util
from typing import Any

from opshift import child_python, terms
from opshift.child_limits import private_bytes
from opshift.records import dataclass
from opshift.zoo.outcome import Fate, Outcome, shortened
from opshift.zoo.workers import worker_side
from opshift.zoo.workers.limits import GRACE, ModelLimits
from opshift.zoo.workers.worker_side import Sized

PRELOADED = ["opshift.zoo.task", "opshift.zoo.workers.warm"]
SMALL = 16 << 20  # most bytes of the jobs in a worker, if one of them waits
SOON, MOST = 0.05, 16  # seconds until something that waits has its turn, and how many wait
LONGEST = 70  # bytes of a folder in which the name of the server's socket is not too long


@dataclass(slots=True)
class Job:
    """One item, how often it has been tried, and the time limit of this try."""

    item: Sized
    attempts: int = 0
    seconds: float = 0.0
    is_last: bool = False  # it was put aside before


class Worker:
    """One child, its present job, and the jobs that wait in its pipe."""

    def __init__(self, fn: Callable[..., Outcome], limits: ModelLimits) -> None:
        context = _context()
        fd, name = tempfile.mkstemp(prefix="opshift-worker-")
        self.log, self.limits = os.fdopen(fd, "rb"), limits
        self.jobs, self.bytes = deque[Job](), 0
        self.since, self.served = 0.0, 0
        self.pace = SOON  # seconds that the last job took
        self.sentence: Fate | None = None
        self.pipe, theirs = context.Pipe()
        listens, self.life = context.Pipe(duplex=False)  # `life` closes with us, however we end
        path, caller = child_python.search_path(), terms.caller()
        arguments = (fn, limits, theirs, listens, name, path, caller)
        self.process = context.Process(target=worker_side.serve, args=arguments, daemon=True)
        with theirs, listens, _main_left_alone(), child_python.safe_multiprocessing():
            _keep_socket_short()
            self.process.start()

    @property
    def job(self) -> Job | None:
        """The present job."""
        return self.jobs[0] if self.jobs else None

    @property
    def ahead(self) -> float:
        """The estimated seconds of work that wait after the present job."""
        return min(SOON, (len(self.jobs) - 1) * self.pace) if self.jobs else 0.0

    @property
    def worn(self) -> bool:
        """Whether the child has done its share of items and must be replaced."""
        return self.served >= self.limits.recycle

    def takes(self, job: Job) -> bool:
        """Whether an item may wait in this child, because its turn will come soon."""
        soon = len(self.jobs) * self.pace < SOON and len(self.jobs) < MOST
        return soon and not self.worn and self.bytes + job.item.size <= SMALL

    def give(self, job: Job) -> None:
        """Sends an item; `hear` notices if the child has died."""
        if not self.jobs:
            self.since = time.monotonic()
        self.jobs.append(job)
        self.bytes += job.item.size
        self.served += 1
        try:
            self.pipe.send_bytes(pickle.dumps((job.item, job.seconds)))
        except OSError:
            self.sentence = Fate.LOST

    def hear(self) -> tuple[Job | None, Outcome | None]:
        """The finished job and its outcome; the outcome is None if the child is dead."""
        job = self.jobs.popleft() if self.jobs else None
        self.bytes -= job.item.size if job else 0
        try:
            outcome: Outcome = self.pipe.recv()
        except (EOFError, OSError):
            return job, None
        self.since, self.pace = time.monotonic(), outcome.seconds  # the next has just begun
        return job, outcome

    def watch(self) -> None:
        """Kills a child that the kernel has not stopped at its limits."""
        cap = self.limits.megabytes
        if self.job and time.monotonic() > self.since + self.job.seconds + GRACE:
            self.sentence = Fate.TIMEOUT
        elif cap is not None and private_bytes(self.process.pid) > cap << 20:
            self.sentence = Fate.OOM
        else:
            return
        self.process.kill()

    def autopsy(self, job: Job | None) -> Outcome:
        """The reason why a child died at a job, after its end of the pipe was closed."""
        self.process.join(1.0)
        if self.sentence is Fate.LOST and self.process.exitcode is not None:
            self.sentence = None  # the item found a child that had ended by itself
        self.process.kill()
        self.process.join()
        code = self.process.exitcode or 0
        why = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        fate = self.sentence or (Fate.TIMEOUT if why == "SIGALRM" else Fate.CRASHED)
        if fate is Fate.TIMEOUT and job:
            why = f"not finished in {job.seconds:.3g} s"
        elif fate is Fate.OOM:
            why = f"more than {self.limits.megabytes} MiB"
        said = self._last_words()
        name, detail = job.item.name if job else "", f"{why}: {said}" if said else why
        return Outcome(name, fate, why, shortened(detail))

    def _last_words(self) -> str:
        self.log.seek(max(0, os.fstat(self.log.fileno()).st_size - 4096))
        lines = self.log.read().decode(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else ""

    def close(self) -> None:
        """Ends the child, whose answers were read already."""
        self.pipe.close()
        self.life.close()
        self.process.kill()
        self.process.join()
        self.log.close()


def _context() -> Any:
    """The way to start children: from a server with slow imports done, if there is fork."""
    if sys.platform == "win32":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


@contextlib.contextmanager
def _main_left_alone() -> Iterator[None]:
    """Keeps a child from importing the main program, which would run again without a guard."""
    main = vars(sys.modules["__main__"])
    kept: dict[str, Any] = {n: main.pop(n) for n in ("__spec__", "__file__") if n in main}
    main["__spec__"] = None
    try:
        yield
    finally:
        main.update(kept)


def _keep_socket_short() -> None:
    """Chooses a short folder for the socket of the server, whose path may have 100 bytes."""
    usual = tempfile.gettempdir()
    if sys.platform != "win32" and len(os.fsencode(usual)) > LONGEST:
        tempfile.tempdir = "/tmp"
        try:
            util.get_temp_dir()  # the first call fixes the folder of the server's socket
        finally:
            tempfile.tempdir = usual
