# SPDX-License-Identifier: Apache-2.0
"""Creates temporary folders for models from object stores; removes folders of killed processes."""

from __future__ import annotations

import contextlib
import functools
import glob
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator

PREFIX = "opshift-scratch-"


@contextlib.contextmanager
def folder() -> Iterator[str]:
    """Creates a temporary folder that is locked until this process ends."""
    _sweep_once()
    while True:
        path = os.path.realpath(tempfile.mkdtemp(prefix=PREFIX))
        lock = _locked(path)
        # no other process has removed the folder before it was locked
        if lock is not None and os.path.isdir(path):
            break
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


@functools.cache
def _sweep_once() -> None:
    """Removes the folders that no process has locked, once per process."""
    for path in glob.glob(os.path.join(glob.escape(tempfile.gettempdir()), PREFIX + "*")):
        lock = _locked(path) if sys.platform != "win32" else None
        if lock is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(lock)


def _locked(path: str) -> int | None:
    """Locks a folder; returns None if it is locked, was removed, or belongs to another user."""
    if sys.platform == "win32":
        return os.open(os.devnull, os.O_RDONLY)
    import fcntl

    fd = None
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        if fd is not None:
            os.close(fd)
        return None
    return fd
