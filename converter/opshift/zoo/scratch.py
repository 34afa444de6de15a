# SPDX-License-Identifier: Apache-2.0
"""Folders for models that are not files here; what a killed process leaves is taken away."""

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
    """A folder of our own, locked as long as we live: the kernel lets go of what a death leaves."""
    _sweep_once()
    while True:
        path = os.path.realpath(tempfile.mkdtemp(prefix=PREFIX))
        lock = _locked(path)
        if lock is not None and os.path.isdir(path):  # no sweeper was quicker
            break
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


@functools.cache
def _sweep_once() -> None:
    """Removes the folders that nobody holds; a worker that replaces a dead one begins with that."""
    for path in glob.glob(os.path.join(glob.escape(tempfile.gettempdir()), PREFIX + "*")):
        lock = _locked(path) if sys.platform != "win32" else None
        if lock is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(lock)


def _locked(path: str) -> int | None:
    """The folder, held; None where another holds it, or it is gone, or is not ours."""
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
