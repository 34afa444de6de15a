# SPDX-License-Identifier: Apache-2.0
"""What a child may use, enforced by the kernel, which native code cannot talk out of it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from multiprocessing.connection import Connection

from opshift.records import dataclass

GRACE = 5.0  # seconds after which the parent kills what the alarm did not


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """What one model may cost, and how often it is tried."""

    seconds: float = 600.0
    megabytes: int | None = None
    recycle: int = 200
    retries: int = 1


def die_with(life: Connection) -> None:
    """Ends this process when the other end of the pipe closes, whoever started the process.

    PR_SET_PDEATHSIG speaks of the forkserver, which lives as long as its children. A signal that
    the pipe itself sends speaks of the driver, and its default action needs no interpreter.
    """
    if sys.platform == "win32":
        return
    import fcntl

    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(life.fileno(), fcntl.F_SETOWN, os.getpid())
    flags = fcntl.fcntl(life.fileno(), fcntl.F_GETFL)
    fcntl.fcntl(life.fileno(), fcntl.F_SETFL, flags | os.O_ASYNC)
    if life.poll():  # it had closed before we listened
        os._exit(1)


def cap_memory(megabytes: int | None) -> None:
    """Lets allocations beyond the cap fail; no core file is left."""
    if sys.platform == "win32":
        return
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if megabytes is not None:
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        with contextlib.suppress(ValueError, OSError):  # the cap of whoever started us is lower
            resource.setrlimit(resource.RLIMIT_DATA, (megabytes << 20, hard))


def alarm(seconds: float) -> None:
    """The kernel ends this process after so many seconds; 0 takes it back."""
    if sys.platform == "win32":
        return
    if seconds:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def private_bytes(pid: int) -> int:
    """The memory that is a process's own; 0 where nobody tells."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            _, resident, shared, *_ = map(int, file.read().split())
    except (OSError, ValueError):
        return 0
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")


def fair_share(workers: int) -> int | None:
    """Megabytes for each of so many workers that leave a fifth of the machine alone."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    except (ValueError, OSError, AttributeError):
        return None
    return max(1024, total * 4 // 5 // workers)
