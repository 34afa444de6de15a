# SPDX-License-Identifier: Apache-2.0
"""Runs shards on a Ray cluster; needs `opshift[ray]`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from opshift.errors import ClusterLost
from opshift.records import dataclass


@dataclass(slots=True)
class Ray:
    """Sends calls to the Ray cluster to which this process is connected."""

    # the working folder of the cluster's workers
    folder: tempfile.TemporaryDirectory[str] | None = None

    def slots(self) -> int:
        import ray

        return int(ray.cluster_resources().get("CPU", 1)) or 1

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Any:
        import ray

        return ray.remote(max_retries=0)(call).remote(*arguments)

    def ended(self, handles: Sequence[Any], seconds: float) -> list[Any]:
        import ray

        return list(ray.wait(list(handles), num_returns=1, timeout=seconds)[0])

    def result(self, handle: Any) -> Any:
        import ray

        try:
            return ray.get(handle)
        # this local process passes on everything that is submitted
        except ray.exceptions.LocalRayletDiedError as error:
            message = f"the Ray node on this machine ended before its work was done: {error}"
            raise ClusterLost(message) from error

    def cancel(self, handle: Any) -> None:
        import ray

        ray.cancel(handle, force=True)

    def close(self) -> None:
        import ray

        ray.shutdown()
        if self.folder is not None:
            self.folder.cleanup()


def connect(address: str | None) -> Ray:
    """Connects to a cluster, or starts a local cluster with a worker for each processor.

    Ray adds the working folder to the search path of its workers, so an empty folder is used.
    """
    import ray

    folder, here = tempfile.TemporaryDirectory(prefix="opshift-"), os.getcwd()
    os.chdir(folder.name)
    try:
        ray.init(address, include_dashboard=False, log_to_driver=False)
    finally:
        os.chdir(here)
    return Ray(folder)
