# SPDX-License-Identifier: Apache-2.0
"""Splits the models of a batch into parts (shards), and sends the shards to a cluster.

The cluster only transports work. Each worker of the cluster starts a process that supervises child
processes like the local engine, so the cluster itself needs no limits.
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
TICK = 0.5  # seconds between two checks of the deadline
Shard: TypeAlias = tuple[Sized, ...]


class Carrier(Protocol):
    """The interface to Ray or Dask: starts remote calls and finds those that have finished."""

    def slots(self) -> int:
        """Returns how many calls can run at the same time."""

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Starts a call, without retries; returns a handle."""

    def ended(self, handles: Sequence[Any], seconds: float) -> list[Any]:
        """Waits, up to a time limit, until a call has finished; returns the finished handles."""

    def result(self, handle: Any) -> Any:
        """Returns the result of a call; raises an error if the call or the cluster was lost."""

    def cancel(self, handle: Any) -> None:
        """Cancels a call if its result is not needed."""


@dataclass(slots=True)
class Spread:
    """The engine for clusters; submits at most two shards for each call that can run at once."""

    carrier: Carrier
    limits: ModelLimits = field(default_factory=ModelLimits)
    stopping: bool = False
    deadline: float = math.inf  # the time at which running shards are abandoned
    crew: tuple[Worker, ...] = ()  # empty, because workers on other machines cannot be observed

    def stop(self, seconds: float = math.inf) -> None:
        """Submits no more shards; running shards may continue for this number of seconds."""
        self.stopping = True
        self.deadline = min(self.deadline, time.monotonic() + seconds)

    def run(self, fn: Callable[..., Outcome], items: Iterable[Sized]) -> Iterator[Outcome]:
        """Yields an outcome for each item; if a shard is lost, tries both halves of it again.

        Raises ClusterLost if the cluster ends, because all further items would be lost. If the
        run was stopped before, the error is ignored, because the cluster may have been stopped as
        well.
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
    """Calls the cluster; every error becomes ClusterLost, because no model caused the error."""
    try:
        return call(*arguments)
    except Exception as error:  # each cluster package raises exceptions of its own
        detail = f"{type(error).__name__}: {error}"
        raise ClusterLost(f"the cluster ended before its work was done: {detail}") from error


def cut(items: Iterable[Sized]) -> Iterator[Shard]:
    """Splits models into shards of `MODELS` models, or of fewer models if they exceed `BYTES`."""
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
    """Serializes the work of a shard to bytes, which a cluster transports unchanged."""
    where = os.getcwd(), child_python.search_path()
    return pickle.dumps((*where, pickle.dumps((fn, limits)), pickle.dumps(shard)))


def unpacked(work: bytes) -> tuple[Callable[..., Outcome], ModelLimits, Shard]:
    """Reads the work of a shard; first sets the working folder and the search path."""
    here, path, how, what = pickle.loads(work)
    with contextlib.suppress(OSError):  # the folder may not exist on another machine
        os.chdir(here)
    sys.path += [folder for folder in path if folder not in sys.path]
    shard: Shard = pickle.loads(what)
    return *_how(how), shard


@functools.lru_cache(maxsize=1)
def _how(packed: bytes) -> tuple[Callable[..., Outcome], ModelLimits]:
    """Returns the function and its limits; equal bytes are deserialized only once."""
    work: tuple[Callable[..., Outcome], ModelLimits] = pickle.loads(packed)
    return work
