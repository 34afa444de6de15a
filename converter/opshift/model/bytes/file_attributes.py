# SPDX-License-Identifier: Apache-2.0
"""Copies permissions to results: the mode, owner and extended attributes of files."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from opshift.errors import BadDestination
from opshift.model.bytes.source import BINARY
from opshift.records import dataclass

Readers: TypeAlias = tuple[int, int]  # the mode and the group of a file

# Attributes that the system computes from the content or reserves for itself.
_NOT_COPIED = ("security.ima", "security.evm", "security.selinux", "system.nfs4_acl")


def readers(path: str) -> Readers:
    """Returns the mode and the group of a file, which say who may read it."""
    status = os.stat(path)
    return status.st_mode, status.st_gid


def create(path: str, sources: Sequence[Readers]) -> int:
    """Creates a file that only those users may read who may read all of its sources."""
    return _create(path, allowed(0o666, None, sources))


def create_result(path: str, replaced: str, sources: Sequence[Readers]) -> int:
    """Creates a file with the mode of the replaced file, or else with the mode from the umask.

    The group and other users get no permission that a source denies.
    """
    fd = create(path, sources)
    status = os.fstat(fd)
    try:
        mode = os.stat(replaced).st_mode
    except OSError:
        mode = allowed(0o666, status.st_gid, sources)
        if mode != allowed(0o666, None, sources):  # the umask applies only to new files
            os.close(fd)
            os.unlink(path)
            fd = _create(path, mode)
        status = os.fstat(fd)
        mode = status.st_mode
    try:
        os.chmod(path, stat.S_IMODE(allowed(mode, status.st_gid, sources)))
    except OSError:
        os.close(fd)
        raise
    return fd


def _create(path: str, mode: int) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | BINARY, mode)


def allowed(mode: int, group: int | None, sources: Iterable[Readers]) -> int:
    """Removes permissions from a mode that a source denies to its group or to other users."""
    for of_source, its_group in sources:
        others = of_source & 0o007
        shared = of_source & 0o070 if its_group in (group, -1) else others << 3
        mode &= ~0o077 | shared | others
    return mode


@dataclass(frozen=True, slots=True)
class Attributes:
    """The mode, owner and extended attributes of a file that is to be replaced."""

    path: str
    status: os.stat_result
    extended: dict[str, bytes]

    @staticmethod
    def of(path: str) -> Attributes:
        return Attributes(path, os.stat(path), _extended(path))

    def give_to(self, path: str, sources: Iterable[Readers] = ()) -> None:
        """Gives a new file the attributes of the old file; raises if that is not permitted."""
        now = os.stat(path)
        owner = (self.status.st_uid, self.status.st_gid)
        if hasattr(os, "chown") and (now.st_uid, now.st_gid) != owner:
            try:
                os.chown(path, *owner)
            except OSError as error:
                raise self._lost(f"the owner {owner[0]} and the group {owner[1]}", error) from error
        mode = allowed(self.status.st_mode, owner[1], sources)
        os.chmod(path, stat.S_IMODE(mode))
        present = _extended(path)
        for name, value in self.extended.items():
            if present.get(name) != value:
                try:
                    os.setxattr(path, name, value)
                except OSError as error:
                    raise self._lost(f"the extended attribute {name}", error) from error

    def _lost(self, what: str, error: OSError) -> BadDestination:
        return BadDestination(
            f"{self.path}: {what} cannot be given to the file that would replace it"
            f" ({error.strerror}); write to another file with -o"
        )


def _extended(path: str) -> dict[str, bytes]:
    if not hasattr(os, "listxattr"):
        return {}
    try:
        names = os.listxattr(path)
    except OSError:  # the file system has no extended attributes
        return {}
    return {name: os.getxattr(path, name) for name in names if name not in _NOT_COPIED}
