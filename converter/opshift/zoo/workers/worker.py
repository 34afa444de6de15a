# SPDX-License-Identifier: Apache-2.0
"""Controls one child process: sends items to it, watches it, and reports why it died."""

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
SMALL = 16 << 20  # the most bytes of all jobs in one worker, if a job waits
SOON, MOST = 0.05, 16  # seconds after which a waiting job must start, and the most jobs of a worker
LONGEST = 70  # the longest path in bytes of a folder for the forkserver's socket


@dataclass(slots=True)
class Job:
    """One item, the number of its tries, and the time limit of the current try."""

    item: Sized
    attempts: int = 0
    seconds: float = 0.0
    is_last: bool = False  # the job exceeded its limit before, and is retried


class Worker:
    """One child process, its current job, and the jobs that wait in its pipe."""

    def __init__(self, fn: Callable[..., Outcome], limits: ModelLimits) -> None:
        context = _context()
        fd, self.log_name = tempfile.mkstemp(prefix="opshift-worker-")
        self.log, self.limits = os.fdopen(fd, "rb"), limits
        self.jobs, self.bytes = deque[Job](), 0
        self.since, self.served = 0.0, 0
        self.pace = SOON  # the seconds that the last job took
        self.sentence: Fate | None = None
        self.pipe, theirs = context.Pipe()
        # the kernel closes `life` when this process ends, for whatever reason
        listens, self.life = context.Pipe(duplex=False)
        path, caller = child_python.search_path(), terms.caller()
        arguments = (fn, limits, theirs, listens, self.log_name, path, caller)
        self.process = context.Process(target=worker_side.serve, args=arguments, daemon=True)
        with theirs, listens, _main_left_alone(), child_python.safe_multiprocessing():
            _keep_socket_short()
            self.process.start()

    @property
    def job(self) -> Job | None:
        """The job that is running."""
        return self.jobs[0] if self.jobs else None

    @property
    def ahead(self) -> float:
        """The estimated seconds of work in the jobs that wait after the current one."""
        return min(SOON, (len(self.jobs) - 1) * self.pace) if self.jobs else 0.0

    @property
    def worn(self) -> bool:
        """Whether the child process has reached its limit of items and must be replaced."""
        return self.served >= self.limits.recycle

    def takes(self, job: Job) -> bool:
        """Returns whether this child process may receive one more item, to start it soon."""
        soon = len(self.jobs) * self.pace < SOON and len(self.jobs) < MOST
        return soon and not self.worn and self.bytes + job.item.size <= SMALL

    def give(self, job: Job) -> None:
        """Sends an item; if the child process is dead, `hear` notices it."""
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
        """Returns the finished job and its outcome; the outcome is None if the child is dead."""
        job = self.jobs.popleft() if self.jobs else None
        self.bytes -= job.item.size if job else 0
        try:
            outcome: Outcome = self.pipe.recv()
        except (EOFError, OSError):
            return job, None
        self.since, self.pace = time.monotonic(), outcome.seconds  # the next job has just started
        return job, outcome

    def watch(self) -> None:
        """Kills a child process that the kernel has not stopped at its limits."""
        cap = self.limits.megabytes
        if self.job and time.monotonic() > self.since + self.job.seconds + GRACE:
            self.sentence = Fate.TIMEOUT
        elif cap is not None and private_bytes(self.process.pid) > cap << 20:
            self.sentence = Fate.OOM
        else:
            return
        self.process.kill()

    def autopsy(self, job: Job | None) -> Outcome:
        """Returns an outcome that says why a child process died, after its pipe was closed."""
        self.process.join(1.0)
        if self.sentence is Fate.LOST and self.process.exitcode is not None:
            self.sentence = None  # the child had already ended before the item was sent
        self.process.kill()
        self.process.join()
        code = self.process.exitcode or 0
        why = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        fate = self.sentence or (Fate.TIMEOUT if why == "SIGALRM" else Fate.CRASHED)
        if fate is Fate.TIMEOUT and job:
            why = f"not finished in {job.seconds:.3g} s"
        elif fate is Fate.OOM:
            why = f"more than {self.limits.megabytes} MiB"
        last_words = self._last_words()
        name, detail = job.item.name if job else "", f"{why}: {last_words}" if last_words else why
        return Outcome(name, fate, why, shortened(detail))

    def _last_words(self) -> str:
        self.log.seek(max(0, os.fstat(self.log.fileno()).st_size - 4096))
        lines = self.log.read().decode(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else ""

    def close(self) -> None:
        """Ends the child process after its answers were read."""
        self.pipe.close()
        self.life.close()
        self.process.kill()
        self.process.join()
        self.log.close()
        with contextlib.suppress(FileNotFoundError):  # the child process usually removes it
            os.unlink(self.log_name)


def _context() -> Any:
    """Returns the context that forks child processes from a server that has imported opshift."""
    if sys.platform == "win32":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


@contextlib.contextmanager
def _main_left_alone() -> Iterator[None]:
    """Prevents children from importing the main program, which would run again in each child."""
    main = vars(sys.modules["__main__"])
    names: dict[str, Any] = {n: main.pop(n) for n in ("__spec__", "__file__") if n in main}
    main["__spec__"] = None
    try:
        yield
    finally:
        main.update(names)


def _keep_socket_short() -> None:
    """Chooses a short folder for the forkserver's socket, whose path may have 100 bytes."""
    usual = tempfile.gettempdir()
    if sys.platform != "win32" and len(os.fsencode(usual)) > LONGEST:
        tempfile.tempdir = "/tmp"
        try:
            util.get_temp_dir()  # the first call determines the folder of the forkserver's socket
        finally:
            tempfile.tempdir = usual
