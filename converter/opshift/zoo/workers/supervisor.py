# SPDX-License-Identifier: Apache-2.0
"""The local engine: child processes with a pipe each; a crash affects only its model."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from multiprocessing.connection import wait

from opshift.records import dataclass
from opshift.zoo.outcome import Fate, Outcome, shortened
from opshift.zoo.workers.limits import ModelLimits
from opshift.zoo.workers.worker import Job, Worker
from opshift.zoo.workers.worker_side import Sized

TICK = 0.1
PAUSE = 0.5  # seconds before a worker is tried again that could not be started


@dataclass(slots=True)
class Supervisor:
    """The local engine: runs a function over items in so many workers."""

    workers: int
    limits: ModelLimits = field(default_factory=ModelLimits)
    stopping: bool = False
    crew: list[Worker] = field(default_factory=list)
    again: deque[Job] = field(default_factory=deque)

    def stop(self) -> None:
        """Gives out no more items; running items continue."""
        self.stopping = True

    def run(self, fn: Callable[..., Outcome], items: Iterable[Sized]) -> Iterator[Outcome]:
        """An outcome for each item, in the order in which they end."""
        try:
            yield from self.work(fn, items)
        finally:
            self.close()

    def work(self, fn: Callable[..., Outcome], items: Iterable[Sized]) -> Iterator[Outcome]:
        """Like `run`, and the workers stay for more items of this function."""
        fresh, ended, looked = map(Job, items), list[Outcome](), time.monotonic()
        while True:
            ended += self._feed(fn, fresh)  # before results are read, so that no worker waits
            yield from ended
            if not any(worker.jobs for worker in self.crew):
                return
            time.sleep(min(worker.ahead for worker in self.crew) / 2)  # to hear several at once
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

    def _feed(self, fn: Callable[..., Outcome], fresh: Iterator[Job]) -> Iterator[Outcome]:
        """Gives idle workers an item, starting those that are needed, then busy ones the next."""
        while not self.stopping:
            if not (job := self.again.popleft() if self.again else next(fresh, None)):
                return
            free = next((worker for worker in self.crew if not worker.jobs), None)
            if not free and len(self.crew) < self.workers:
                try:
                    free = Worker(fn, self.limits)
                except (OSError, EOFError) as error:  # the server it starts from may be dying
                    time.sleep(PAUSE)
                    yield from self._again_or(_lost(job, error), job)
                    continue
                self.crew.append(free)
            if not free:
                free = next((worker for worker in self.crew if worker.takes(job)), None)
            if not free:
                self.again.appendleft(job)
                return
            free.give(job)

    def _hear_all(self, worker: Worker) -> Iterator[Outcome]:
        """Reads all answers that a worker has sent by now."""
        yield from self._hear(worker)
        while worker in self.crew and worker.jobs and worker.pipe.poll():
            yield from self._hear(worker)

    def _hear(self, worker: Worker) -> Iterator[Outcome]:
        """Reads one answer of a worker, or handles its death."""
        job, said = worker.hear()
        outcome = said or worker.autopsy(job.item.name if job else "")
        ruined = not said or outcome.fate is Fate.OOM
        if ruined or (worker.worn and not worker.jobs):
            self.again.extendleft(worker.jobs)  # waiting items are not affected
            self.crew.remove(worker)
            worker.close()
        if job and ruined and outcome.fate is not Fate.TIMEOUT:
            yield from self._again_or(outcome, job)
        elif job:
            yield outcome

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
