# SPDX-License-Identifier: Apache-2.0
"""Writes a mark file for each result: a digest of options and source, and sizes of files.

A mark is written after its result. A result that has no mark, or has changed since its mark was
written, is converted again.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import TypeAlias

from opshift.json_form import parsed
from opshift.model.bytes.source import write_all
from opshift.records import dataclass
from opshift.report import Origin
from opshift.zoo.key import Key
from opshift.zoo.outcome import Stamp
from opshift.zoo.stores import stores
from opshift.zoo.stores.stores import StoreError

Measure: TypeAlias = Callable[[str], tuple[int, str]]


@dataclass(frozen=True, slots=True)
class Mark:
    """The key, files, versions and origin of a result; release 0.2.0 did not store the origin."""

    key: str
    writes: tuple[Stamp, ...]
    result: Mapping[str, int] = field(default_factory=dict)
    origin: Origin | None = None

    def encoded(self) -> bytes:
        raw = {**dataclasses.asdict(self), "result": dict(self.result)}
        return json.dumps({"schema_version": 1, **raw}).encode("ascii")

    @staticmethod
    def decoded(data: bytes) -> Mark | None:
        """Reads a mark; returns None if another schema version wrote it."""
        try:
            raw = parsed(data)
            writes = tuple(
                (str(path), int(size), str(version)) for path, size, version in raw["writes"]
            )
            origin = Origin.from_dict(raw["origin"]) if raw.get("origin") else None
            mark = Mark(raw["key"], writes, dict(raw["result"]), origin)
            return mark if raw["schema_version"] == 1 else None
        except (ValueError, KeyError, TypeError):
            return None

    def holds(self, key: Key, folder: str) -> bool:
        """Returns whether the mark has this key, and the files of its result are unchanged."""
        return self.key == key() and unchanged(self.writes, folder)


def stamps(paths: Iterable[str], folder: str) -> tuple[Stamp, ...]:
    """Returns the current sizes and times of files, with paths relative to a folder."""
    return tuple((_from(folder, path), *stores.size_and_version(path)) for path in paths)


def _from(folder: str, path: str) -> str:
    inside = path.startswith(folder + os.sep)
    return path[len(folder) + 1 :] if inside else os.path.relpath(path, folder)


def unchanged(
    stamps_then: Iterable[Stamp], folder: str, measure: Measure = stores.size_and_version
) -> bool:
    """Returns whether files or objects have these sizes and times; raises if a store fails."""
    stamps_then = tuple(stamps_then)
    try:
        return bool(stamps_then) and all(
            measure(stores.join(folder, name)) == (size, version)
            for name, size, version in stamps_then
        )
    except StoreError:
        raise
    except OSError:
        return False


def write(path: str, mark: Mark) -> None:
    """Writes a mark to a file."""
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
