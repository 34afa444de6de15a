# SPDX-License-Identifier: Apache-2.0
"""Finds and removes the files that a killed run left in a folder.

A run has one hidden file in each folder to which it writes (`claim.py`). The file is locked while
the run lives. The file lists the data files that appear and disappear with a model, because their
names differ from the name of the model.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from opshift.errors import InvalidModel
from opshift.json_form import parsed
from opshift.model.bytes import locks
from opshift.model.bytes.source import BINARY, TEXTS, Identity, Pages

STALE = 3600.0  # seconds after which a file counts as abandoned on a system without locks
BRIEF = 5.0  # seconds after which the removal of old data is left to a later run

NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_RUN = re.compile(r"\.opshift-([0-9a-f]{12})\.run")
_TEMPORARY = re.compile(r"\.opshift-([0-9a-f]{12})(?:-\d+)?\.tmp")
_MODELS = (".onnx", ".pb", ".ort", *TEXTS)
# a file that this user cannot read; other errors, such as EIO, may not occur again
UNREADABLE = {errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENXIO, errno.EOPNOTSUPP}
_TAIL = 5  # bytes; most names of data files end in ".data"

DataFile: TypeAlias = tuple[str, Identity]  # its name relative to a folder, and its identity

_swept: set[str] = set()  # the folders for which this process has called `sweep`


def run_file(folder: str, token: str) -> str:
    """Returns the path of the hidden file of a run."""
    return os.path.join(folder, f".opshift-{token}.run")


def temporary(folder: str, token: str, number: int) -> str:
    """Returns the path of a temporary file of a run."""
    return os.path.join(folder, f".opshift-{token}-{number}.tmp")


def note(data: Iterable[DataFile]) -> bytes:
    """Returns the line that lists data files in a run's hidden file."""
    return json.dumps({"data": dict(data)}).encode() + b"\n"


def noted(fd: int) -> set[DataFile]:
    """Returns the data files that a run's hidden file lists."""
    os.lseek(fd, 0, os.SEEK_SET)
    files: set[DataFile] = set()
    for line in os.read(fd, os.fstat(fd).st_size).splitlines():
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
            data = parsed(line)["data"]
            files |= {(os.path.basename(name), Identity(*of)) for name, of in data.items()}
    return files


def sweep_once(folder: str) -> None:
    """Calls `sweep` at most once per folder and process, because it lists the whole folder."""
    if os.path.abspath(folder) not in _swept:
        sweep(folder)


def sweep_again(folder: str) -> None:
    """Makes the next `sweep_once` sweep a folder again."""
    _swept.discard(os.path.abspath(folder))


def sweep(folder: str, own: str = "", retired: set[DataFile] | None = None) -> list[str]:
    """Removes the files that killed runs left in a folder; returns the names of its subfolders.

    The files of runs that are still alive stay. The parameter `own` is the identifier of the
    calling run. The `retired` data files of this run are removed unless a model refers to them. The
    set `retired` then contains the files that a later run has to remove.
    """
    _swept.add(os.path.abspath(folder))
    retired = set() if retired is None else retired
    folders = list[str]()
    with (
        contextlib.suppress(OSError),
        locks.folder_lock(folder, BRIEF if retired else 0.0) as unused,
    ):
        names = _listed(folder, folders)
        runs = dict(_ended_runs(folder, names, own))
        data = retired.union(*runs.values())
        unremoved = _retire(folder, data, names) if unused else data
        retired &= unremoved
        for token, listed in runs.items():
            if not listed & unremoved:
                _end_run(folder, token, listed)
    return folders


def sweep_below(folder: str, *, leave_out: str) -> None:
    """Calls `sweep` for a folder and all its subfolders, except those named `leave_out`."""
    for name in sweep(folder):
        if name != leave_out:
            sweep_below(os.path.join(folder, name), leave_out=leave_out)


def _listed(folder: str, folders: list[str]) -> list[str]:
    """Returns the names of the files in a folder, and appends the subfolders to a list."""
    names = list[str]()
    with os.scandir(folder or os.curdir) as entries:
        for entry in entries:
            (folders if entry.is_dir(follow_symlinks=False) else names).append(entry.name)
    return names


def _ended_runs(folder: str, names: list[str], own: str) -> Iterator[tuple[str, set[DataFile]]]:
    """Removes temporary files of ended runs; yields each run's identifier and listed files."""
    files: dict[str, list[str]] = {}
    for name in names:
        if match := _TEMPORARY.fullmatch(name):
            files.setdefault(match[1], []).append(os.path.join(folder, name))
    for path in files.pop(own, ()):
        _unlink(path)
    for token in {match[1] for name in names if (match := _RUN.fullmatch(name))} - {own}:
        paths = files.pop(token, [])
        with _abandoned(run_file(folder, token)) as listed:
            if listed is not None:
                for path in paths:
                    remove(path)
                yield token, listed
    for path in (path for paths in files.values() for path in paths):
        if is_stale(path):
            _unlink(path)


def _end_run(folder: str, token: str, listed: set[DataFile]) -> None:
    """Removes the hidden file of an ended run, unless another run has taken it over."""
    path = run_file(folder, token)
    with _abandoned(path) as now:
        if now == listed:
            _unlink(path)


def _retire(folder: str, data: set[DataFile], names: list[str]) -> set[DataFile]:
    """Removes unchanged data files to which no model in their folder refers.

    Returns the files that could not be removed.
    """
    there = {file for file in data if _is_there(folder, *file)}
    unread = {os.path.basename(name) for name, _ in there}
    for name in names:
        if unread and name.endswith(_MODELS):
            unread -= mentioned(os.path.join(folder, name), unread)
    failed: set[DataFile] = set()
    for name, identity in there:
        if os.path.basename(name) in unread:
            try:
                remove(os.path.join(folder, name))
            except OSError:
                failed.add((name, identity))
    return failed


def _is_there(folder: str, name: str, identity: Identity) -> bool:
    try:
        now = Identity.of(os.lstat(os.path.join(folder, name)))
    except FileNotFoundError:
        return False
    return now[1:] == identity[1:]  # device numbers may change


def mentioned(model: str, names: Iterable[str]) -> set[str]:
    """Returns which of these data files a model may use; all of them if it cannot be read."""
    text = text_of(model)
    if text is None:
        return set(names)
    used: set[str] = set()
    ends: dict[bytes, dict[bytes, str]] = {}
    for name in names:
        for form in (os.fsencode(name), name.encode("unicode_escape")):
            ends.setdefault(form[-_TAIL:], {})[form] = name
    for tail, forms in ends.items():
        lengths, at = {len(form) for form in forms}, text.find(tail)
        while at >= 0:
            end = at + len(tail)
            read = (text[max(0, end - length) : end] for length in lengths)
            used.update(forms[form] for form in read if form in forms)
            at = text.find(tail, at + 1)
    return used


def text_of(model: str) -> bytes | None:
    """Returns the bytes of a model without its weights; None if this is not a readable model.

    An error of the disk is raised, because a later attempt may find the data files of the model.
    """
    from opshift.model.bytes import wire
    from opshift.model.bytes.outline import skeleton

    try:
        fd = os.open(model, os.O_RDONLY | BINARY | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        return b""
    except OSError as error:
        if error.errno in UNREADABLE:
            return None
        raise
    try:
        status = os.fstat(fd)
        return skeleton(Pages(fd, status.st_size, model)) if stat.S_ISREG(status.st_mode) else b""
    except (wire.Malformed, InvalidModel):
        return None
    finally:
        os.close(fd)


@contextlib.contextmanager
def _abandoned(path: str) -> Iterator[set[DataFile] | None]:
    """Yields the data files that an ended run lists; None if the run may be alive."""
    try:
        fd = os.open(path, os.O_RDWR | BINARY | NOFOLLOW)
    except OSError:  # the file is removed, or another user owns it
        yield None
        return
    try:
        locked = locks.lock(fd)
        free = is_stale(path) if locked is None else locked and is_at(fd, path)
        yield noted(fd) if free and is_ours(path) else None
    finally:
        os.close(fd)


def is_at(fd: int, path: str) -> bool:
    """Returns whether an open file still has its name."""
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(path))
    except OSError:
        return False


def is_ours(path: str) -> bool:
    """Returns whether this user or the owner of the folder wrote a file."""
    if not hasattr(os, "geteuid"):
        return True
    folder = os.path.dirname(path) or os.curdir
    return os.lstat(path).st_uid in (os.geteuid(), os.stat(folder).st_uid)


def is_stale(path: str) -> bool:
    """Returns whether this user's file was not written to for a long time."""
    try:
        return os.lstat(path).st_mtime < time.time() - STALE and is_ours(path)
    except OSError:
        return False


def remove(path: str) -> None:
    """Removes a file if it exists."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _unlink(path: str) -> None:
    """Removes a file if the system allows it."""
    with contextlib.suppress(OSError):
        os.unlink(path)
