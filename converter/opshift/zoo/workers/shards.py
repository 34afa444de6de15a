# SPDX-License-Identifier: Apache-2.0
"""Distributes a zoo over the workers of a cluster in shards, each with its own supervisor.

A cluster only transports work: its worker starts a process that supervises children like the local
engine, so the cluster needs no limits of its own.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import pickle
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from typing import Any, Protocol, TypeAlias

from opshift import child_python
from opshift.errors import ClusterLost
from opshift.records import dataclass
from opshift.zoo.outcome import Fate, Outcome, shortened
from opshift.zoo.workers.limits import ModelLimits
from opshift.zoo.workers.pool import elsewhere
from opshift.zoo.workers.worker import Worker
from opshift.zoo.workers.worker_side import Sized

MODELS, BYTES = 64, 2 << 30
TICK = 0.5  # seconds between looks at the deadline
Shard: TypeAlias = tuple[Sized, ...]


class Carrier(Protocol):
    """The interface to Ray or Dask: remote calls, and which of them have ended."""

    def slots(self) -> int:
        """How many calls can run at a time."""

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Starts a call, without retries; returns a handle."""

    def ended(self, handles: Sequence[Any], seconds: float) -> list[Any]:
        """The handles of finished calls; waits for one of them up to a time limit."""

    def result(self, handle: Any) -> Any:
        """The result of a call; raises if the call was lost, ClusterLost if nothing can run."""

    def cancel(self, handle: Any) -> None:
        """Cancels a call, whose result is not needed."""


@dataclass(slots=True)
class Spread:
    """The engine that hands shards to a carrier, two for each of its slots at most."""

    carrier: Carrier
    limits: ModelLimits = field(default_factory=ModelLimits)
    stopping: bool = False
    deadline: float = math.inf  # when running shards are given up
    crew: tuple[Worker, ...] = ()  # workers on other machines cannot be watched

    def stop(self, seconds: float = math.inf) -> None:
        """Submits no more shards; running shards continue for this number of seconds."""
        self.stopping = True
        self.deadline = min(self.deadline, time.monotonic() + seconds)

    def run(self, fn: Callable[..., Outcome], items: Iterable[Sized]) -> Iterator[Outcome]:
        """An outcome for each item; a shard that is lost is halved and tried again.

        Raises ClusterLost if the cluster ends, as each of the other items would be lost too, unless
        the run was stopped: then the cluster may have been stopped as well.
        """
        try:
            yield from self._run(fn, items)
        except ClusterLost:
            if not self.stopping:
                raise

    def _run(self, fn: Callable[..., Outcome], items: Iterable[Sized]) -> Iterator[Outcome]:
        fresh, again = cut(items), deque[Shard]()
        flying: dict[Any, Shard] = {}
        try:
            while True:
                while not self.stopping and len(flying) < 2 * asked(self.carrier.slots):
                    shard = again.popleft() if again else next(fresh, None)
                    if shard is None:
                        break
                    work = packed(fn, self.limits, shard)
                    flying[asked(self.carrier.submit, elsewhere, work)] = shard
                if not flying or time.monotonic() > self.deadline:
                    return
                for handle in asked(self.carrier.ended, list(flying), TICK):
                    yield from self._hear(handle, flying.pop(handle), again)
        finally:
            for handle in flying:
                self.carrier.cancel(handle)

    def _hear(self, handle: Any, shard: Shard, again: deque[Shard]) -> Iterator[Outcome]:
        try:
            outcomes = self.carrier.result(handle)
        except ClusterLost:
            raise
        except Exception as error:
            if len(shard) == 1:
                detail = f"the cluster lost the model: {type(error).__name__}: {error}"
                yield Outcome(shard[0].name, Fate.LOST, type(error).__name__, shortened(detail))
            elif not self.stopping:
                middle = len(shard) // 2
                again.extend((shard[:middle], shard[middle:]))
        else:
            yield from outcomes


def asked(call: Callable[..., Any], *arguments: Any) -> Any:
    """The state of a cluster; ClusterLost if it raises, because no shard is at fault."""
    try:
        return call(*arguments)
    except Exception as error:  # each package of a cluster raises its own
        detail = f"{type(error).__name__}: {error}"
        raise ClusterLost(f"the cluster ended while it had work: {detail}") from error


def cut(items: Iterable[Sized]) -> Iterator[Shard]:
    """Cuts models into shards of `MODELS` models, or fewer if they exceed `BYTES` together."""
    shard, size = list[Sized](), 0
    for item in items:
        if shard and (len(shard) == MODELS or size + item.size > BYTES):
            yield tuple(shard)
            shard, size = [], 0
        shard.append(item)
        size += item.size
    if shard:
        yield tuple(shard)


def packed(fn: Callable[..., Outcome], limits: ModelLimits, shard: Shard) -> bytes:
    """Work as bytes, which a cluster sends without reading them."""
    where = os.getcwd(), child_python.search_path()
    return pickle.dumps((*where, pickle.dumps((fn, limits)), pickle.dumps(shard)))


def unpacked(work: bytes) -> tuple[Callable[..., Outcome], ModelLimits, Shard]:
    """The work of a shard, after it has added the folders of its modules and changed folder."""
    here, path, how, what = pickle.loads(work)
    with contextlib.suppress(OSError):  # another machine may not have the folder
        os.chdir(here)
    sys.path += [folder for folder in path if folder not in sys.path]
    shard: Shard = pickle.loads(what)
    return *_how(how), shard


@functools.lru_cache(maxsize=1)
def _how(packed: bytes) -> tuple[Callable[..., Outcome], ModelLimits]:
    """The function and its limits, unpacked once while they stay the same."""
    found: tuple[Callable[..., Outcome], ModelLimits] = pickle.loads(packed)
    return found
