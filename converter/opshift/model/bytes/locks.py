# SPDX-License-Identifier: Apache-2.0
"""Locks files and folders; the system releases the locks when a process ends or is killed."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Iterator

_BUSY = {errno.EWOULDBLOCK, errno.EACCES, errno.EINTR}
_UNKNOWN = {errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EBADF, errno.EINVAL}
_FAR = 1 << 30  # on Windows a locked byte cannot be read, so it lies after the content


def lock(fd: int, *, shared: bool = False) -> bool | None:
    """Tries to lock without waiting; returns whether this worked, or None if no locks exist."""
    if sys.platform == "win32":
        import msvcrt

        os.lseek(fd, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            return _refused(error)
        return True
    import fcntl

    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        return _refused(error)
    return True


def _refused(error: OSError) -> bool | None:
    """Returns False if the lock is taken, or None if the system has no such locks."""
    if error.errno in _BUSY:
        return False
    if error.errno in _UNKNOWN:
        return None
    raise error


def tries(seconds: float) -> Iterator[None]:
    """Yields for each attempt: at once, and then after growing pauses until the time is over."""
    end, pause = time.monotonic() + seconds, 0.001
    yield
    while time.monotonic() < end:
        time.sleep(pause)
        pause = min(2 * pause, 0.05)
        yield


@contextlib.contextmanager
def folder_lock(folder: str, seconds: float, *, shared: bool = False) -> Iterator[bool]:
    """Locks a folder while its data files are used (shared) or removed.

    Yields False if another process holds the lock for longer than `seconds`. A system without
    folder locks grants every lock.
    """
    fd = _opened_folder(folder)
    if fd is None:
        yield True
        return
    try:
        yield any(lock(fd, shared=shared) is not False for _ in tries(seconds))
    finally:
        with contextlib.suppress(OSError):  # nothing was written, and closing unlocks
            os.close(fd)


def _opened_folder(folder: str) -> int | None:
    if sys.platform == "win32":
        return None
    try:
        return os.open(folder or os.curdir, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:  # files can be created in a folder that cannot be read
        return None
