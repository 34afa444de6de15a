# SPDX-License-Identifier: Apache-2.0
"""Runs models in child processes of this machine; a crash affects only one model."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from multiprocessing.connection import wait

from opshift.records import dataclass
from opshift.zoo.outcome import Fate, Outcome, shortened
from opshift.zoo.workers.learned_limit import LearnedLimit
from opshift.zoo.workers.limits import ModelLimits
from opshift.zoo.workers.worker import Job, Worker
from opshift.zoo.workers.worker_side import Sized

TICK = 0.1
PAUSE = 0.5  # seconds before another attempt to start a worker


@dataclass(slots=True)
class Supervisor:
    """The local engine: runs a function on items in several child processes."""

    workers: int
    limits: ModelLimits = field(default_factory=ModelLimits)
    stopping: bool = False
    deadline: float = math.inf  # the time at which running items are abandoned
    crew: list[Worker] = field(default_factory=list)
    again: deque[Job] = field(default_factory=deque)
    # jobs that exceeded their limit and wait for a retry
    aside: deque[Job] = field(default_factory=deque)
    learned: LearnedLimit = field(default_factory=LearnedLimit)

    def stop(self, seconds: float = math.inf) -> None:
        """Starts no more items; running items may continue for this number of seconds."""
        self.stopping = True
        self.deadline = min(self.deadline, time.monotonic() + seconds)

    def run(self, fn: Callable[..., Outcome], items: Iterable[Sized]) -> Iterator[Outcome]:
        """Yields an outcome for each item, in the order in which they finish."""
        try:
            yield from self.work(fn, items)
        finally:
            self.close()

    def work(self, fn: Callable[..., Outcome], items: Iterable[Sized]) -> Iterator[Outcome]:
        """Works like `run`, but keeps the workers for more items of this function."""
        fresh, ended, looked = map(Job, items), list[Outcome](), time.monotonic()
        while True:
            ended += self._feed(fn, fresh)  # before results are read, so that no worker is idle
            yield from ended
            if time.monotonic() > self.deadline or not any(worker.jobs for worker in self.crew):
                return
            # waits a little, so that several results are read at once
            time.sleep(min(worker.ahead for worker in self.crew) / 2)
            ready = wait([worker.pipe for worker in self.crew], TICK)
            talking = [worker for worker in self.crew if worker.pipe in ready]
            ended = [outcome for worker in talking for outcome in self._hear_all(worker)]
            if (now := time.monotonic()) > looked + TICK:
                looked = now
                for worker in self.crew:
                    worker.watch()

    def close(self) -> None:
        """Ends the workers."""
        for worker in self.crew:
            worker.close()
        self.crew.clear()
        self.again.clear()
        self.aside.clear()

    def _feed(self, fn: Callable[..., Outcome], fresh: Iterator[Job]) -> Iterator[Outcome]:
        """Starts workers as needed, and sends jobs: first to idle workers, then to busy workers."""
        while not self.stopping:
            if not (job := self._next(fresh)):
                return
            free = next((worker for worker in self.crew if not worker.jobs), None)
            if not free and len(self.crew) < self.workers:
                try:
                    free = Worker(fn, self.limits)
                except (OSError, EOFError) as error:  # the forkserver may be ending
                    time.sleep(PAUSE)
                    yield from self._again_or(_lost(job, error), job)
                    continue
                self.crew.append(free)
            if not free and not job.is_last:  # a retried job may hang, so it needs an idle worker
                free = next((worker for worker in self.crew if worker.takes(job)), None)
            if not free:
                self.again.appendleft(job)
                return
            job.seconds = self._limit(job)
            free.give(job)

    def _next(self, fresh: Iterator[Job]) -> Job | None:
        """Returns the next job; jobs that wait for a retry come last."""
        if self.again:
            return self.again.popleft()
        job = next(fresh, None)
        if job is None and self.aside:
            job = self.aside.popleft()
            job.is_last = True
        return job

    def _limit(self, job: Job) -> float:
        if self.limits.seconds is not None:
            return self.limits.seconds
        if job.is_last:
            return self.learned.last(len(self.aside) + 1)
        return self.learned.first(job.item.size)

    def _hear_all(self, worker: Worker) -> Iterator[Outcome]:
        """Yields outcomes for all answers that a worker has sent so far."""
        yield from self._hear(worker)
        while worker in self.crew and worker.jobs and worker.pipe.poll():
            yield from self._hear(worker)

    def _hear(self, worker: Worker) -> Iterator[Outcome]:
        """Reads one answer of a worker, or handles its death."""
        job, answer = worker.hear()
        outcome = answer or worker.autopsy(job)
        ruined = not answer or outcome.fate is Fate.OOM
        if ruined or (worker.worn and not worker.jobs):
            # waiting jobs are not affected and run in another worker
            self.again.extendleft(worker.jobs)
            self.crew.remove(worker)
            worker.close()
        if job is None:
            return
        if outcome.fate is Fate.TIMEOUT:
            yield from self._aside_or(outcome, job)
            return
        self._record_time(outcome, job)
        if ruined:
            yield from self._again_or(outcome, job)
        else:
            yield outcome

    def _record_time(self, outcome: Outcome, job: Job) -> None:
        if not job.is_last:
            self.learned.spent += outcome.seconds
        if outcome.fate is Fate.OK:
            self.learned.record(job.item.size, outcome.seconds)

    def _aside_or(self, outcome: Outcome, job: Job) -> Iterator[Outcome]:
        """Postpones a job to retry it at the end; yields the outcome if this was its last try."""
        if job.is_last or self.limits.seconds is not None:
            yield outcome
        else:
            self.learned.spent += job.seconds
            self.aside.append(job)

    def _again_or(self, outcome: Outcome, job: Job) -> Iterator[Outcome]:
        """Repeats a job if it has tries left; otherwise yields the outcome."""
        job.attempts += 1
        if job.attempts > self.limits.retries:
            yield outcome
        else:
            self.again.append(job)


def _lost(job: Job, error: Exception) -> Outcome:
    detail = f"no worker could be started: {error}"
    return Outcome(job.item.name, Fate.LOST, "no worker", shortened(detail))
