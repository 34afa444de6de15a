# SPDX-License-Identifier: Apache-2.0
"""Finds the models of a run: in a folder, by a pattern, or in a list of paths.

Folders, patterns and lists may also be in an object store, and a list may contain URLs.
"""

from __future__ import annotations

import errno
import glob
import hashlib
import os
import posixpath
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from opshift.errors import InvalidModel
from opshift.model.bytes.file_names import ENDING, has_ending
from opshift.records import dataclass
from opshift.text import printable
from opshift.zoo.stores import stores
from opshift.zoo.stores.stores import Listed, is_url

HIDDEN = ".opshift"


@dataclass(frozen=True, slots=True)
class Shard:
    """One of `count` parts of a zoo, numbered from 1; the name of a model determines its part."""

    number: int = 1
    count: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.count:
            raise ValueError(
                f"{self.number}/{self.count} is not a shard; give I/N with 1 <= I <= N"
            )

    @staticmethod
    def read(text: str) -> Shard:
        number, slash, count = text.partition("/")
        if not (slash and number.isdecimal() and count.isdecimal()):
            raise ValueError(f"{text!r} is not a shard; give I/N with 1 <= I <= N")
        return Shard(int(number), int(count))

    def has(self, name: str) -> bool:
        if self.count == 1:
            return True
        digest = hashlib.sha256(os.fsencode(name)).digest()
        return int.from_bytes(digest[:8], "big") % self.count == self.number - 1


def find(source: str, leave_out: str = "", listed: Listed | None = None) -> list[tuple[str, str]]:
    """Returns (name, path) of every model, sorted by name; raises if two models have one name."""
    models: dict[str, str] = {}
    if is_url(source):
        pairs = _look_in_store(source, leave_out, listed or Listed())
    else:
        away = is_url(leave_out) or not leave_out
        pairs = _look(source, "" if away else os.path.realpath(leave_out))
    for name, path in pairs:
        if posixpath.normpath(name).startswith("../"):
            raise InvalidModel(
                f"{printable(source)}: {printable(path)!r} is outside the folder of the models"
            )
        if name in models and models[name] != path:
            raise InvalidModel(
                f"{printable(models[name])!r} and {printable(path)!r} would both have the name"
                f" {printable(name)!r}; rename one of them"
            )
        models[name] = path
    if not models:
        raise FileNotFoundError(
            f"{printable(source)}: no model found; model files must have the extension {ENDING}"
        )
    return sorted(models.items())


def _look(source: str, leave_out: str) -> Iterator[tuple[str, str]]:
    if os.path.isdir(source):
        yield from _below(source, leave_out)
    elif os.path.isfile(source):
        if has_ending(source):
            yield os.path.basename(source), source
        else:
            yield from _listed(source)
    elif glob.has_magic(source):
        base = _fixed_part(source)
        for path in glob.iglob(source, recursive=True):
            if os.path.isfile(path) and not _inside(path, leave_out):
                yield os.path.relpath(path, base), path
    else:
        raise FileNotFoundError(errno.ENOENT, "there is no such folder, pattern or file", source)


def _below(source: str, leave_out: str) -> Iterator[tuple[str, str]]:
    unlisted = list[str]()

    def keep(error: OSError) -> None:
        if error.filename == source:
            raise error
        unlisted.append(error.filename)

    for here, folders, files in os.walk(source, onerror=keep):
        folders[:] = [
            name
            for name in sorted(folders)
            if os.path.realpath(os.path.join(here, name)) != leave_out
        ]
        within = os.path.relpath(here, source)
        for name in files:
            path = os.path.join(here, name)
            # A broken link is listed as a model, so that the run reports it as unreadable.
            if has_ending(name) and (os.path.isfile(path) or not os.path.exists(path)):
                yield os.path.normpath(os.path.join(within, name)), path
    # The run reports a folder that cannot be listed as a model that cannot be read.
    yield from ((os.path.relpath(path, source), path) for path in unlisted)


def _listed(manifest: str) -> Iterator[tuple[str, str]]:
    with open(manifest, encoding="utf-8", errors="surrogateescape") as file:
        yield from _named(file, os.path.dirname(manifest))


def _named(lines: Iterable[str], folder: str) -> Iterator[tuple[str, str]]:
    """Yields one path a line, relative to the folder of the list; skips blank lines and # lines."""
    for line in lines:
        line = line.rstrip("\r\n")
        if is_url(line):
            yield line.partition("://")[2], line
        elif line.strip() and not line.startswith("#"):
            name = os.path.normpath(line).lstrip(os.sep)
            yield name, os.path.join(folder, line)


def _look_in_store(source: str, leave_out: str, listed: Listed) -> Iterator[tuple[str, str]]:
    source = source.rstrip("/")
    store, key = stores.at(source)
    if glob.has_magic(key):
        parts = key.split("/")
        fixed = next(i for i, part in enumerate(parts) if glob.has_magic(part))
        base, pattern = stores.join(store.root, "/".join(parts[:fixed])), parts[fixed:]
        for name in _names_below(base, leave_out, listed):
            if _matches(name.split("/"), pattern):
                yield name, stores.join(base, name)
    elif has_ending(key):
        yield posixpath.basename(key), source
    elif key and _is_object(source):
        text = store.read(key).decode(errors="surrogateescape")
        yield from _named(text.splitlines(), posixpath.dirname(source))
    else:
        for name in _names_below(source, leave_out, listed):
            if has_ending(name):
                yield name, stores.join(source, name)


def _names_below(url: str, leave_out: str, listed: Listed) -> Iterator[str]:
    url = url.rstrip("/")
    folder = stores.at(url)[1]
    for key in listed.below(url):
        name = key[len(folder) :].lstrip("/")
        inside = leave_out and stores.join(url, name).startswith(leave_out.rstrip("/") + "/")
        if not inside and (HIDDEN not in name.split("/") or has_ending(name)):
            yield name


def _is_object(url: str) -> bool:
    try:
        stores.size_and_version(url)
    except FileNotFoundError:
        return False
    return True


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Returns whether the name of an object matches a pattern, like `glob` with `recursive`."""
    if not pattern:
        return not parts
    if pattern[0] == "**":
        positions = range(len(parts) + 1) if len(pattern) > 1 else ()
        return len(pattern) == 1 or any(_matches(parts[i:], pattern[1:]) for i in positions)
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])


def _fixed_part(pattern: str) -> str:
    """Returns the folder part of a pattern before its first special character."""
    parts = pattern.split(os.sep)
    fixed = next(i for i, part in enumerate(parts) if glob.has_magic(part))
    return os.sep.join(parts[:fixed]) or (os.sep if pattern.startswith(os.sep) else os.curdir)


def _inside(path: str, folder: str) -> bool:
    return bool(folder) and os.path.realpath(path).startswith(os.path.join(folder, ""))
