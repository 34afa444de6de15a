# SPDX-License-Identifier: Apache-2.0
"""Sets limits of a child process that the kernel enforces even while native code runs."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

# the signals of a person, a system and a closed terminal that stop a run; Windows has no SIGHUP
STOPS = tuple(
    signal.Signals[name]
    for name in ("SIGINT", "SIGTERM", "SIGHUP")
    if name in signal.Signals.__members__
)


def die_with(life: Connection) -> None:
    """Ends this process when the parent process ends and the pipe `life` closes.

    PR_SET_PDEATHSIG would react to the end of the forkserver that forked this process instead.
    A signal of the pipe arrives when the parent ends. The default action of the signal ends this
    process even while no Python code can run.
    """
    if sys.platform == "win32":
        return
    import fcntl

    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(life.fileno(), fcntl.F_SETOWN, os.getpid())
    flags = fcntl.fcntl(life.fileno(), fcntl.F_GETFL)
    fcntl.fcntl(life.fileno(), fcntl.F_SETFL, flags | os.O_ASYNC)
    if life.poll():  # the parent closed the pipe before the signal was set
        os._exit(1)


def cap_memory(megabytes: int | None) -> None:
    """Makes memory allocations above the limit fail, and disables core files."""
    if sys.platform == "win32":
        return
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if megabytes is not None:
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        with contextlib.suppress(ValueError, OSError):  # the parent has set a lower limit
            resource.setrlimit(resource.RLIMIT_DATA, (megabytes << 20, hard))


def cap_processor(seconds: float) -> None:
    """Makes the kernel end this process after this many more seconds of processor time."""
    if sys.platform == "win32":
        return
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(used.ru_utime + used.ru_stime + seconds) + 1
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    with contextlib.suppress(ValueError, OSError):  # the parent has set a lower limit
        resource.setrlimit(resource.RLIMIT_CPU, (limit, hard))


def alarm(seconds: float) -> None:
    """Makes the kernel end this process after this many seconds; 0 cancels the limit."""
    if sys.platform == "win32":
        return
    if seconds:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def private_bytes(pid: int) -> int:
    """Returns the private memory of a process in bytes; 0 if the system does not report it."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            _, resident, shared, *_ = map(int, file.read().split())
    except (OSError, ValueError):
        return 0
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")


def fair_share(workers: int) -> int | None:
    """Returns the megabytes of each worker if all workers together use 80 % of the memory."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    except (ValueError, OSError, AttributeError):
        return None
    return max(1024, total * 4 // 5 // workers)
