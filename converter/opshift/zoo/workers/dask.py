# SPDX-License-Identifier: Apache-2.0
"""Runs shards on a Dask cluster; needs `opshift[dask]`."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Sequence
from typing import Any

from opshift.records import dataclass

STARTS = 3  # attempts to start a cluster on this machine


@dataclass(slots=True)
class Dask:
    """Sends calls to a Dask cluster; `close` disconnects the client."""

    client: Any

    def slots(self) -> int:
        return sum(self.client.nthreads().values()) or 1

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Any:
        return self.client.submit(call, *arguments, pure=False, retries=0)

    def ended(self, handles: Sequence[Any], seconds: float) -> list[Any]:
        from distributed import TimeoutError, wait

        try:
            return list(wait(list(handles), timeout=seconds, return_when="FIRST_COMPLETED").done)
        except TimeoutError:
            return []

    def result(self, handle: Any) -> Any:
        return handle.result()

    def cancel(self, handle: Any) -> None:
        self.client.cancel(handle, force=True)

    def close(self) -> None:
        self.client.close()


def connect(address: str | None) -> Dask:
    """Connects to a scheduler, or starts a local cluster with one worker for each processor."""
    from distributed import Client

    if address:
        return Dask(Client(address))
    # the worker processes inherit this setting
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        for _ in range(STARTS - 1):
            with contextlib.suppress(RuntimeError):  # a process of the cluster ended too early
                return Dask(Client(threads_per_worker=1, dashboard_address=None))
        return Dask(Client(threads_per_worker=1, dashboard_address=None))
    finally:
        signal.signal(signal.SIGINT, before)
