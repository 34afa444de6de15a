# SPDX-License-Identifier: Apache-2.0
"""Claims the name of a result, so that only one run at a time writes the result.

A claim is a lock on a hidden file whose name is derived from the name of the model. The lock is
held from the check of the old result to the removal of the old data files.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterable
from dataclasses import field

from opshift.errors import BadDestination, LeftoverWarning
from opshift.model.bytes import file_names, leftovers, locks
from opshift.model.bytes.file_names import errors_name
from opshift.model.bytes.leftovers import NOFOLLOW, DataFile
from opshift.model.bytes.source import BINARY, write_all
from opshift.records import dataclass

WAIT = 60.0  # seconds after which a run stops waiting for another run that writes the same result

_holders: dict[tuple[int, int], tuple[int, int]] = {}  # process and thread, by the locked file


@dataclass(slots=True)
class Claim:
    """The lock on the name of a result in a folder, and the files of the run with this lock."""

    folder: str
    token: str
    fd: int
    is_new: bool  # whether the lock file was new, so that no killed run left it
    count: int = 0
    finished: bool = True
    temporary: list[str] = field(default_factory=list)
    retired: set[DataFile] = field(default_factory=set)  # removed unless a model uses them

    @staticmethod
    def on(folder: str, model: str) -> Claim:
        """Claims the name of a model in a folder for the lifetime of this process.

        Waits while another run holds the claim; raises BadDestination if the wait is too long.
        """
        token, name = file_names.digest(model), os.path.join(folder, model)
        path = leftovers.run_file(folder, token)
        for _ in locks.tries(WAIT):
            with errors_name(name):
                claim = _claimed(folder, token, name)
            if claim is not None:
                return claim
            if _is_mine(path):
                break
        raise BadDestination(
            f"{name}: another run of opshift is writing this file; run the command again when it"
            " has ended"
        )

    @property
    def path(self) -> str:
        return leftovers.run_file(self.folder, self.token)

    def recover(self) -> None:
        """Removes the files of a killed run that wrote the same result."""
        if not self.is_new:
            self.retired = leftovers.noted(self.fd)
            leftovers.sweep(self.folder, self.token, self.retired)

    def name(self) -> str:
        """Returns the name of a new temporary file, which `release` removes."""
        while True:
            self.count += 1
            path = leftovers.temporary(self.folder, self.token, self.count)
            if not os.path.lexists(path):
                self.temporary.append(path)
                return path

    def note(self, data: Iterable[DataFile]) -> None:
        """Records data files that are removed unless the finished model refers to them."""
        os.lseek(self.fd, 0, os.SEEK_END)  # the notes of a killed run stay in front
        write_all(self.fd, leftovers.note(data))
        os.fsync(self.fd)

    def release(self, *, sweeps: bool) -> None:
        """Removes the remaining temporary files; with `sweeps`, also all files of killed runs.

        The lock file stays if a later run has to remove more files.
        """
        for path in self.temporary:
            try:
                leftovers.remove(path)
            except OSError:
                self.finished = False  # the next run tries again
        if not sweeps:  # a later sweep of the folder does the rest
            self.finished &= self.is_new and not self.retired
        elif self.is_new and not self.retired:
            leftovers.sweep_once(self.folder)
        else:
            leftovers.sweep(self.folder, self.token, self.retired)
            self.finished &= not self.retired
        self._close()

    def _close(self) -> None:
        """Releases the lock, after the result was completed or given up."""
        _holders.pop(_identity(self.fd), None)
        if not self.finished:
            leftovers.sweep_again(self.folder)
        steps: list[Callable[[], object]] = [lambda: os.close(self.fd)]
        if self.finished:
            # The next run locks the file that has this name when the lock is free. Windows cannot
            # remove an open file.
            steps.insert(os.name == "nt", lambda: leftovers.remove(self.path))
        for step in steps:
            try:
                step()
            except OSError as error:
                text = f"{self.path}: {error.strerror}; remove this temporary file of opshift"
                warnings.warn(text, LeftoverWarning, stacklevel=2)


def tidy(model: str) -> None:
    """Removes files of killed runs next to a model that was not changed."""
    folder, name = os.path.split(model)
    if os.path.lexists(leftovers.run_file(folder, file_names.digest(name))):
        leftovers.sweep(folder)
    else:
        leftovers.sweep_once(folder)


def _claimed(folder: str, token: str, name: str) -> Claim | None:
    """Claims a name; returns None if another run holds the claim."""
    path, claim = leftovers.run_file(folder, token), None
    opened = _opened(path, name)
    if opened is None:
        return None
    fd, is_new = opened
    try:
        locked = locks.lock(fd)
        if locked is None and not is_new and leftovers.is_stale(path):
            leftovers.sweep(folder)
        elif is_new if locked is None else locked and leftovers.is_at(fd, path):
            if is_new or leftovers.is_ours(path):
                new = Claim(folder, token, fd, is_new)
                new.recover()
                _holders[_identity(fd)] = _this_thread()
                claim = new
            else:
                _remove_of_another_user(path, name)
    finally:
        if claim is None:
            os.close(fd)
    return claim


def _opened(path: str, name: str) -> tuple[int, bool] | None:
    """Opens or creates the lock file, and returns whether it is new; None if it was removed."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | BINARY, 0o666), True
    except FileExistsError:
        pass
    for mode in (os.O_RDWR, os.O_RDONLY):
        try:
            return os.open(path, mode | BINARY | NOFOLLOW), False
        except FileNotFoundError:
            return None
        except PermissionError:
            continue
    raise _of_another_user(path, name)


def _remove_of_another_user(path: str, name: str) -> None:
    """Removes the lock file of an ended run of another user."""
    try:
        os.unlink(path)
    except OSError:
        raise _of_another_user(path, name) from None


def _of_another_user(path: str, name: str) -> BadDestination:
    return BadDestination(
        f"{name}: a run of another user is writing this file; if it has ended, remove {path}"
    )


def _is_mine(path: str) -> bool:
    """Returns whether this thread has locked a file."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return _holders.get((status.st_dev, status.st_ino)) == _this_thread()


def _this_thread() -> tuple[int, int]:
    return os.getpid(), threading.get_ident()


def _identity(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino
