"""Which models a run is about: below a folder, matching a pattern, or listed in a file."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from opshift.errors import InvalidModel
from opshift.zoo.outcome import printable

ENDING = ".onnx"
HIDDEN = ".opshift"


@dataclass(frozen=True, slots=True)
class Shard:
    """One of `count` parts of a zoo, numbered from 1; a name alone says which it belongs to."""

    number: int = 1
    count: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.count:
            raise ValueError(f"a shard is i/n with 1 <= i <= n, not {self.number}/{self.count}")

    @staticmethod
    def read(text: str) -> Shard:
        number, slash, count = text.partition("/")
        if not (slash and number.isdecimal() and count.isdecimal()):
            raise ValueError(f"a shard is i/n with 1 <= i <= n, not {text!r}")
        return Shard(int(number), int(count))

    def has(self, name: str) -> bool:
        digest = hashlib.sha256(os.fsencode(name)).digest()
        return int.from_bytes(digest[:8], "big") % self.count == self.number - 1


def find(source: str, leave_out: str = "") -> list[tuple[str, str]]:
    """(name, path) of every model, sorted by name; two models of one name are an error."""
    found: dict[str, str] = {}
    for name, path in _look(source, os.path.realpath(leave_out) if leave_out else ""):
        if name in found and found[name] != path:
            raise InvalidModel(
                f"{printable(found[name])!r} and {printable(path)!r} would both become"
                f" {printable(name)!r}"
            )
        found[name] = path
    if not found:
        raise InvalidModel(f"{printable(source)}: no model found")
    return sorted(found.items())


def _look(source: str, leave_out: str) -> Iterator[tuple[str, str]]:
    if os.path.isdir(source):
        yield from ((os.path.relpath(path, source), path) for path in _below(source, leave_out))
    elif os.path.isfile(source):
        if source.endswith(ENDING):
            yield os.path.basename(source), source
        else:
            yield from _listed(source)
    elif glob.has_magic(source):
        base = _fixed_part(source)
        for path in glob.iglob(source, recursive=True):
            if os.path.isfile(path) and not _inside(path, leave_out):
                yield os.path.relpath(path, base), path
    else:
        raise InvalidModel(f"{printable(source)}: there is no such folder, pattern or file")


def _below(folder: str, leave_out: str) -> Iterator[str]:
    for here, folders, files in os.walk(folder):
        folders[:] = [
            name
            for name in sorted(folders)
            if name != HIDDEN and os.path.realpath(os.path.join(here, name)) != leave_out
        ]
        for name in files:
            path = os.path.join(here, name)
            if name.endswith(ENDING) and os.path.isfile(path):
                yield path


def _listed(manifest: str) -> Iterator[tuple[str, str]]:
    """One path a line, from the manifest's folder; blank lines and # lines are left out."""
    folder = os.path.dirname(manifest)
    with open(manifest, encoding="utf-8", errors="surrogateescape") as file:
        lines = [line.rstrip("\r\n") for line in file]
    for line in lines:
        if line.strip() and not line.startswith("#"):
            name = os.path.normpath(line).lstrip(os.sep)
            if name.startswith(os.pardir + os.sep):
                raise InvalidModel(f"{manifest}: {printable(line)!r} is not below its folder")
            yield name, os.path.join(folder, line)


def _fixed_part(pattern: str) -> str:
    """The folder of a pattern before its first special character."""
    parts = pattern.split(os.sep)
    fixed = next(i for i, part in enumerate(parts) if glob.has_magic(part))
    return os.sep.join(parts[:fixed]) or (os.sep if pattern.startswith(os.sep) else os.curdir)


def _inside(path: str, folder: str) -> bool:
    return bool(folder) and os.path.realpath(path).startswith(os.path.join(folder, ""))


def folders_of(paths: Iterable[str]) -> set[str]:
    return {os.path.dirname(path) for path in paths}
