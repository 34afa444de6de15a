"""The local engine: children of our own, a private pipe each; a death costs its item alone."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import Any

from opshift.zoo import child
from opshift.zoo.child import Named
from opshift.zoo.limits import GRACE, Limits, private_bytes
from opshift.zoo.outcome import Fate, Outcome, shortened

TICK = 0.1
PRELOADED = ["opshift.zoo.warm", "opshift.zoo.task"]


@dataclass(slots=True)
class Job:
    """One item and how often it has been tried."""

    item: Named
    attempts: int = 0


class Worker:
    """The driver's side of one child."""

    def __init__(self, context: Any, fn: Callable[..., Outcome], limits: Limits) -> None:
        fd, name = tempfile.mkstemp(prefix="opshift-worker-")
        self.log = os.fdopen(fd, "rb")
        self.limits = limits
        self.pipe, theirs = context.Pipe()
        listens, self.life = context.Pipe(duplex=False)  # `life` closes with us, however we end
        arguments = (fn, limits, theirs, listens, name)
        self.process = context.Process(target=child.serve, args=arguments, daemon=True)
        self.process.start()
        theirs.close()
        listens.close()
        self.job: Job | None = None
        self.since = 0.0
        self.served = 0
        self.verdict: Fate | None = None

    def give(self, job: Job) -> None:
        """Sends an item; if nobody is there to take it, the pipe will say so."""
        job.attempts += 1
        self.job, self.since = job, time.monotonic()
        self.served += 1
        try:
            self.pipe.send(job.item)
        except OSError:
            self.verdict = Fate.LOST

    def watch(self) -> None:
        """Kills a child that the kernel has not stopped at its limits."""
        cap = self.limits.megabytes
        if self.job and time.monotonic() > self.since + self.limits.seconds + GRACE:
            self.verdict = Fate.TIMEOUT
        elif cap is not None and private_bytes(self.process.pid) > cap << 20:
            self.verdict = Fate.OOM
        else:
            return
        self.process.kill()

    def autopsy(self, item: Named) -> Outcome:
        """What a child died of, once its end of the pipe has closed."""
        self.end()
        code = self.process.exitcode or 0
        fate, why = self.verdict or Fate.CRASHED, f"exit code {code}"
        if code < 0:
            why = signal.Signals(-code).name
            if why == "SIGALRM":
                fate = Fate.TIMEOUT
        if fate is Fate.TIMEOUT:
            why = f"not finished in {self.limits.seconds:g} s"
        elif fate is Fate.OOM:
            why = f"more than {self.limits.megabytes} MiB"
        said = self.last_words()
        self.log.close()
        return Outcome(item.name, fate, why, shortened(f"{why}: {said}" if said else why))

    def last_words(self) -> str:
        self.log.seek(max(0, os.fstat(self.log.fileno()).st_size - 4096))
        lines = self.log.read().decode(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else ""

    def end(self) -> None:
        """Lets the child go, and makes it go."""
        self.pipe.close()
        if not self.verdict:
            self.process.join(1.0)
        self.process.kill()
        self.process.join()
        self.life.close()

    def close(self) -> None:
        self.end()
        self.log.close()


@dataclass(slots=True)
class Supervisor:
    """Runs a function over items in so many workers; the local engine."""

    workers: int
    limits: Limits = field(default_factory=Limits)
    stopping: bool = False
    crew: list[Worker] = field(default_factory=list)

    def stop(self) -> None:
        """Hands out nothing more; what is being worked on ends as it will."""
        self.stopping = True

    def run(self, fn: Callable[..., Outcome], items: Iterable[Named]) -> Iterator[Outcome]:
        """An outcome for each item, in the order in which they end."""
        context = _context()
        fresh, again = iter(items), deque[Job]()
        try:
            while True:
                yield from self._hand_out(context, fn, fresh, again)
                if not any(worker.job for worker in self.crew):
                    return
                ready = wait([worker.pipe for worker in self.crew], TICK)
                for worker in [worker for worker in self.crew if worker.pipe in ready]:
                    yield from self._hear(worker, again)
                for worker in self.crew:
                    worker.watch()
        finally:
            for worker in self.crew:
                worker.pipe.close()  # all at once, then wait for each
            for worker in self.crew:
                worker.verdict = Fate.LOST if worker.job else None
                worker.close()
            self.crew.clear()

    def _hand_out(
        self,
        context: Any,
        fn: Callable[..., Outcome],
        fresh: Iterator[Named],
        again: deque[Job],
    ) -> Iterator[Outcome]:
        """Gives every free worker an item, starting workers as they are needed."""
        while not self.stopping:
            free = next((worker for worker in self.crew if not worker.job), None)
            if free is None and len(self.crew) >= self.workers:
                return
            job = again.popleft() if again else _next(fresh)
            if job is None:
                return
            if free is None:
                try:
                    free = Worker(context, fn, self.limits)
                except OSError as error:
                    detail = f"no worker could be started: {error}"
                    yield Outcome(job.item.name, Fate.LOST, "no worker", detail)
                    continue
                self.crew.append(free)
            free.give(job)

    def _hear(self, worker: Worker, again: deque[Job]) -> Iterator[Outcome]:
        """Takes what a worker has to say, which may be that it is dead."""
        job, worker.job = worker.job, None
        try:
            outcome, died = worker.pipe.recv(), False
        except (EOFError, OSError):
            outcome, died = None, True
        if died or outcome.fate is Fate.OOM or worker.served >= self.limits.recycle:
            self.crew.remove(worker)
        if job is None:
            worker.close()
            return
        if died:
            outcome = worker.autopsy(job.item)
        elif worker not in self.crew:
            worker.close()
        retried = (died and outcome.fate is not Fate.TIMEOUT) or outcome.fate is Fate.OOM
        if retried and job.attempts <= self.limits.retries:
            again.append(job)  # once stopped, it had no turn
        else:
            yield outcome


def _next(fresh: Iterator[Named]) -> Job | None:
    item = next(fresh, None)
    return None if item is None else Job(item)


def _context() -> Any:
    """Children start from a server that has the slow imports done, where there is fork."""
    if sys.platform == "win32":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context
