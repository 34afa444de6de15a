# SPDX-License-Identifier: Apache-2.0
"""Finds and removes the files that a killed run left in a folder.

A run holds a lock on one hidden file in each folder that it writes to. The kernel releases
the lock when the process ends, even if it is killed. The file also lists the data files that
appear and disappear with a model, because those have names of their own.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import field
from typing import Any

from opshift.errors import InvalidModel
from opshift.model.bytes.source import TEXTS, Identity, Opened, write_all
from opshift.records import dataclass

STALE = 3600.0  # seconds after which a file is given up where the system has no locks

_RUN = re.compile(r"\.opshift-([0-9a-f]{12})\.run")
_TEMPORARY = re.compile(r"\.opshift-([0-9a-f]{12})(?:-\d+)?\.tmp")
_MODELS = (".onnx", ".pb", ".ort", *TEXTS)


@dataclass(slots=True)
class Claim:
    """The files of a live run in one folder."""

    folder: str
    token: str
    fd: int
    count: int = 0
    finished: bool = True
    temporary: list[str] = field(default_factory=list)

    @staticmethod
    def on(folder: str) -> Claim:
        """Claims names in a folder for as long as this process lives."""
        while True:
            token = os.urandom(6).hex()
            path = os.path.join(folder, f".opshift-{token}.run")
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            if _lock(fd) is not False and os.path.exists(path):  # no sweeper was quicker
                return Claim(folder, token, fd)
            os.close(fd)

    @property
    def path(self) -> str:
        return os.path.join(self.folder, f".opshift-{self.token}.run")

    def name(self) -> str:
        """A name for a temporary file, which is removed in the end."""
        self.count += 1
        path = os.path.join(self.folder, f".opshift-{self.token}-{self.count}.tmp")
        self.temporary.append(path)
        return path

    def note(self, model: str, data: dict[str, Identity]) -> None:
        """Records the data files that are removed unless the finished model refers to them."""
        write_all(self.fd, json.dumps({"model": model, "data": data}).encode())
        os.fsync(self.fd)

    def release(self) -> None:
        """Removes the temporary files that are still there, then the claim if all is done."""
        for path in self.temporary:
            try:
                _removed(path)
            except OSError:
                self.finished = False  # the next run tries again
        os.close(self.fd)
        if self.finished:
            _unlink(self.path)


def sweep(folder: str) -> list[str]:
    """Removes what killed runs left in a folder, and nothing that a live run uses."""
    removed: list[str] = []
    with contextlib.suppress(OSError):
        names = [name for name in os.listdir(folder) if name.startswith(".opshift-")]
        runs = {match[1] for name in names if (match := _RUN.fullmatch(name))}
        for token in runs:
            with _abandoned(os.path.join(folder, f".opshift-{token}.run")) as run:
                if run is not None:
                    removed += _remove_run(folder, token, names, run)
        for name in names:
            match = _TEMPORARY.fullmatch(name)
            if match and match[1] not in runs and _is_stale(os.path.join(folder, name)):
                removed += _unlink(os.path.join(folder, name))
    return removed


def _remove_run(folder: str, token: str, names: list[str], run: bytes) -> list[str]:
    removed = []
    for name in names:
        if (match := _TEMPORARY.fullmatch(name)) and match[1] == token:
            removed += _removed(os.path.join(folder, name))
    with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
        said: dict[str, Any] = json.loads(run)
        seen = {os.path.basename(name): Identity(*of) for name, of in said["data"].items()}
        removed += retire(folder, seen)
    return removed + _unlink(os.path.join(folder, f".opshift-{token}.run"))


def retire(folder: str, data: dict[str, Identity]) -> list[str]:
    """Removes unchanged data files that no model beside them mentions.

    A file that cannot be removed raises an OSError, and the next run tries again.
    """
    removed = []
    for name, seen in data.items():
        path = os.path.join(folder, name)
        try:
            there = Identity.of(os.lstat(path))[1:] == seen[1:]  # disks are numbered anew
        except OSError:
            continue
        base = os.path.basename(name)
        if there and not any(mentions(model, base) for model in _models(folder)):
            removed += _removed(path)
    return removed


def _models(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(_MODELS) and entry.is_file():
                yield entry.path


def mentions(model: str, name: str) -> bool:
    """Whether a model may refer to a data file; in doubt the answer is yes."""
    from opshift.model.bytes import wire
    from opshift.model.bytes.outline import skeleton

    try:
        if os.path.getsize(model) == 0:
            return False
        found = skeleton(Opened(model))
    except FileNotFoundError:
        return False
    except (wire.Malformed, OSError, InvalidModel):
        return True
    return os.fsencode(name) in found or name.encode("unicode_escape") in found


@contextlib.contextmanager
def _abandoned(path: str) -> Iterator[bytes | None]:
    """The content of the file of a run that has ended; None if the run may be alive."""
    fd = None
    try:
        fd = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
        locked = _lock(fd)
        free = _is_ours(path) and (_is_stale(path) if locked is None else locked)
        yield os.read(fd, os.fstat(fd).st_size) if free else None
    except OSError:
        if fd is None:
            yield None  # it is gone, or is not ours
        else:
            raise
    finally:
        if fd is not None:
            os.close(fd)


def _lock(fd: int) -> bool | None:
    """Takes a lock; returns whether it was free, or None if the system has no locks."""
    if sys.platform == "win32":
        return None
    import fcntl

    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in (errno.EWOULDBLOCK, errno.EACCES, errno.EINTR) else None
    return True


def _is_ours(path: str) -> bool:
    """Whether a file was written by this user or by somebody who may remove files here."""
    if not hasattr(os, "geteuid"):
        return True
    return os.lstat(path).st_uid in (os.geteuid(), os.stat(os.path.dirname(path)).st_uid)


def _is_stale(path: str) -> bool:
    try:
        return os.lstat(path).st_mtime < time.time() - STALE and _is_ours(path)
    except OSError:
        return False


def _removed(path: str) -> list[str]:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
        return [path]
    return []


def _unlink(path: str) -> list[str]:
    with contextlib.suppress(OSError):
        return _removed(path)
    return []
