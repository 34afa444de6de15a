# SPDX-License-Identifier: Apache-2.0
"""The mark beside a result: which recipe made it of which bytes, and the files as they were made.

A mark is written after its result, so a result without one, or one that has changed since, is
simply made again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import TypeAlias

from opshift.model.bytes.source import write_all
from opshift.records import dataclass
from opshift.zoo.key import Key
from opshift.zoo.outcome import Stamp
from opshift.zoo.stores import stores
from opshift.zoo.stores.stores import StoreError

Look: TypeAlias = Callable[[str], tuple[int, int | str]]


@dataclass(frozen=True, slots=True)
class Mark:
    """The name of a result, its files, and the versions it has."""

    key: str
    writes: tuple[Stamp, ...]
    result: Mapping[str, int] = field(default_factory=dict)

    def encoded(self) -> bytes:
        raw = {"key": self.key, "writes": self.writes, "result": dict(self.result)}
        return json.dumps({"schema_version": 1, **raw}).encode("ascii")

    @staticmethod
    def decoded(data: bytes) -> Mark | None:
        """A mark that was written by this version, if it is one."""
        try:
            raw = json.loads(data)
            writes = tuple((str(path), int(size), version) for path, size, version in raw["writes"])
            mark = Mark(raw["key"], writes, dict(raw["result"]))
            return mark if raw["schema_version"] == 1 else None
        except (ValueError, KeyError, TypeError):
            return None

    def holds(self, key: Key, folder: str) -> bool:
        """Whether this is the result that a key names, its files being as they were made."""
        return self.key == key() and unchanged(self.writes, folder)


def stamps(paths: Iterable[str], folder: str) -> tuple[Stamp, ...]:
    """Files as they are now, named from a folder."""
    return tuple((_from(folder, path), *stores.look(path)) for path in paths)


def _from(folder: str, path: str) -> str:
    inside = path.startswith(folder + os.sep)
    return path[len(folder) + 1 :] if inside else os.path.relpath(path, folder)


def unchanged(seen: Iterable[Stamp], folder: str, look: Look = stores.look) -> bool:
    """Whether files or objects are as they were; a store that fails says neither."""
    seen = tuple(seen)
    try:
        return bool(seen) and all(
            look(stores.join(folder, name)) == (size, version) for name, size, version in seen
        )
    except StoreError:
        raise
    except OSError:
        return False


def write(path: str, mark: Mark) -> None:
    """Puts a mark in its place; half of one is none."""
    if not os.path.isdir(folder := os.path.dirname(path)):
        os.makedirs(folder, exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), 0o666)
    try:
        write_all(fd, mark.encoded())
    finally:
        os.close(fd)


def read(path: str) -> Mark | None:
    try:
        with open(path, "rb") as file:
            return Mark.decoded(file.read())
    except OSError:
        return None
