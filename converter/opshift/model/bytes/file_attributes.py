# SPDX-License-Identifier: Apache-2.0
"""Who may read a file: the mode, owner and extended attributes that results have."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable
from typing import TypeAlias

from opshift.errors import BadDestination
from opshift.records import dataclass

Readers: TypeAlias = tuple[int, int]  # a mode and a group: who may read a file

# What the system derives from the content, or keeps for itself.
_NOT_COPIED = ("security.ima", "security.evm", "security.selinux", "system.nfs4_acl")


def readers(path: str) -> Readers:
    """Who may read a file."""
    status = os.stat(path)
    return status.st_mode, status.st_gid


def first(sources: Iterable[Readers]) -> int:
    """The mode to create a result with, before its group is known."""
    return allowed(0o666, None, sources)


def restrict(path: str, replaced: str, sources: Iterable[Readers]) -> None:
    """Gives a new file the mode of the replaced file, without permissions that its sources lack."""
    status = os.stat(path)
    mode = status.st_mode
    with contextlib.suppress(OSError):
        mode = os.stat(replaced).st_mode
    os.chmod(path, stat.S_IMODE(allowed(mode, status.st_gid, sources)))


def allowed(mode: int, group: int | None, sources: Iterable[Readers]) -> int:
    """A mode without the permissions that a source does not give to its group or to others."""
    for of_source, its_group in sources:
        others = of_source & 0o007
        shared = of_source & 0o070 if its_group in (group, -1) else others << 3
        mode &= ~0o077 | shared | others
    return mode


@dataclass(frozen=True, slots=True)
class Attributes:
    """The mode, owner and extended attributes of a file that another one replaces."""

    path: str
    status: os.stat_result
    extended: dict[str, bytes]

    @staticmethod
    def of(path: str) -> Attributes:
        return Attributes(path, os.stat(path), _extended(path))

    def give_to(self, path: str, sources: Iterable[Readers] = ()) -> None:
        """Gives a new file the attributes of the old one, or raises if that is not permitted."""
        now = os.stat(path)
        owner = (self.status.st_uid, self.status.st_gid)
        if hasattr(os, "chown") and (now.st_uid, now.st_gid) != owner:
            try:
                os.chown(path, *owner)
            except OSError as error:
                raise self._lost(f"its owner {owner[0]} and group {owner[1]}", error) from error
        mode = allowed(self.status.st_mode, owner[1], sources)
        os.chmod(path, stat.S_IMODE(mode))
        present = _extended(path)
        for name, value in self.extended.items():
            if present.get(name) != value:
                try:
                    os.setxattr(path, name, value)
                except OSError as error:
                    raise self._lost(f"its extended attribute {name}", error) from error

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
    except OSError:  # the file system has none
        return {}
    return {name: os.getxattr(path, name) for name in names if name not in _NOT_COPIED}
