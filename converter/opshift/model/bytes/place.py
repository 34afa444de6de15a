# SPDX-License-Identifier: Apache-2.0
"""Describes the destination of a result: a file that is replaced as a whole, or a stream."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable
from typing import TypeAlias

from opshift import terms
from opshift.errors import BadDestination
from opshift.model.bytes.file_names import errors_name
from opshift.model.bytes.ranges import write_pieces
from opshift.model.bytes.source import BINARY, Identity
from opshift.model.bytes.staging import Pieces, Staging
from opshift.records import dataclass


@dataclass(frozen=True, slots=True)
class Stream:
    """A pipe, a device or the standard output, to which bytes are written in order."""

    name: str
    fd: int | None = None

    def write(self, pieces: Pieces) -> None:
        """Writes a result without replacing a file; the write cannot be undone."""
        with errors_name(self.name):
            if self.fd is not None:
                write_pieces(self.fd, pieces)
                return
            fd = os.open(self.name, os.O_WRONLY | BINARY)
            try:
                write_pieces(fd, pieces)
            finally:
                os.close(fd)


@dataclass(frozen=True, slots=True)
class File:
    """A regular file: the name that the caller gave, and the path after following links."""

    name: str
    path: str

    @property
    def is_link_elsewhere(self) -> bool:
        """Returns whether the name is a link to a file in another folder."""
        there = os.path.realpath(os.path.dirname(self.name))
        return os.path.islink(self.name) and there != os.path.dirname(self.path)


Place: TypeAlias = "str | os.PathLike[str] | File | Stream"


def at(place: Place) -> File | Stream:
    """Returns the destination that a name means; raises if it is a folder or has no folder."""
    if isinstance(place, File | Stream):
        return place
    name = os.fspath(place)
    try:
        mode = os.stat(name).st_mode
    except FileNotFoundError:
        path = os.path.realpath(name) if os.path.islink(name) else name
        if not os.path.isdir(folder := os.path.dirname(path) or os.curdir):
            raise BadDestination(
                f"{name}: there is no folder {folder}; create it, or name another file"
            ) from None
        return File(name, path)
    if stat.S_ISDIR(mode):
        raise BadDestination(f"{name}: this is a folder; name a file in it")
    if not stat.S_ISREG(mode) or _is_descriptor(name):
        return Stream(name)
    return File(name, os.path.realpath(name) if os.path.islink(name) else name)


def _is_descriptor(name: str) -> bool:
    """Returns whether a name means an open file of a process, such as /dev/stdout."""
    while os.path.islink(name):
        folder = os.path.realpath(os.path.dirname(name))
        if folder.startswith("/proc/") and os.path.basename(folder) == "fd":
            return True
        name = os.path.join(folder, os.readlink(name))
    return False


def to_replace(name: str) -> str:
    """Returns the name of a file to be replaced in place; raises for a pipe or device."""
    if isinstance(at(name), Stream):
        raise BadDestination(f"{name}: this is not a regular file and cannot be replaced in place")
    return name


def the_source() -> str:
    """Returns a description of the source model's file, with the option that replaces it."""
    return f"the source itself, which only {terms.option('in_place')} replaces"


def require_free(name: str, needed: Iterable[tuple[str, Identity]]) -> None:
    """Raises if the name belongs to one of these files, which the source model needs."""
    with contextlib.suppress(FileNotFoundError):
        there = Identity.of(os.stat(name))
        for what, identity in needed:
            if identity[:2] == there[:2]:
                raise BadDestination(f"{name}: this is {what}; give the result another name")


def write_whole(path: str, data: bytes) -> None:
    """Writes a file that appears complete or not at all, or writes to a pipe or device."""
    goal = at(path)
    if isinstance(goal, Stream):
        goal.write([data])
        return
    with Staging(goal.path) as staging:
        staging.write_model([data])
        staging.commit(lambda: None)
