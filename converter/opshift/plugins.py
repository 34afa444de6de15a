# SPDX-License-Identifier: Apache-2.0
"""Finds the entry points that installed packages declare for opshift.

Every command of opshift looks up entry points. This module reads the metadata files itself, because
`importlib.metadata` takes longer than a short command.
"""

from __future__ import annotations

import functools
import importlib
import os
import pkgutil
import re
import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import PathFinder
from typing import Any, NamedTuple

_FOLDERS = (".dist-info", ".egg-info")
_FILE = "entry_points.txt"
_OURS = "opshift."  # the prefix of every group of opshift
IGNORED = "OPSHIFT_IGNORE"  # ignored distributions: names or metadata folders


class Point(NamedTuple):
    """An entry point of a package: its group, its name, and a module or a module's attribute."""

    group: str
    name: str
    value: str

    @property
    def module(self) -> str:
        """Returns the name of the module that the entry point names."""
        return self.value.partition("[")[0].partition(":")[0].strip()

    def load(self) -> Any:
        """Imports and returns the module, or the attribute of it that the entry point names."""
        attribute = self.value.partition("[")[0].partition(":")[2]
        loaded: Any = importlib.import_module(self.module)
        for part in filter(None, attribute.strip().split(".")):
            loaded = getattr(loaded, part)
        return loaded


def offered(group: str) -> list[Point]:
    """Returns the entry points of a group, sorted by name."""
    points = [point for point in _all(tuple(sys.path), _ignored()) if point.group == group]
    return sorted(points, key=lambda point: point.name)


def data(package: str, name: str) -> bytes:
    """Returns the bytes of a file in a package."""
    content = pkgutil.get_data(package, name)
    if content is None:  # a namespace package, or an unusual kind of archive
        from importlib.resources import files

        content = files(package).joinpath(name).read_bytes()
    return content


def distributions(path: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yields the normalized name and the metadata folder of each distribution on a path."""
    for folder in path:
        yield from _distributions(folder or os.curdir)


def _ignored() -> frozenset[str]:
    named = filter(None, os.environ.get(IGNORED, "").split(os.pathsep))
    return frozenset(word if os.sep in word else _normal(word) for word in named)


@functools.lru_cache(maxsize=1)
def _all(path: tuple[str, ...], ignored: frozenset[str] = frozenset()) -> tuple[Point, ...]:
    if any(_is_unusual(finder) for finder in sys.meta_path) or any(map(os.path.isfile, path)):
        return tuple(_by_importlib(ignored))
    folders: dict[str, str] = {}
    for name, place in distributions(path):
        if not ignored & {name, place}:
            folders.setdefault(name, place)  # Python imports the first distribution of a name
    return tuple(point for place in folders.values() for point in _read(place))


def _by_importlib(ignored: frozenset[str]) -> Iterator[Point]:
    """Yields the entry points from Python's finders, which also read archives."""
    from importlib import metadata

    names_seen = set[str]()
    for distribution in metadata.distributions():
        place = str(getattr(distribution, "_path", ""))
        name = _named_by(os.path.basename(place)) or _normal(distribution.metadata["Name"] or "")
        if name not in names_seen and not ignored & {name, place}:
            names_seen.add(name)
            mine = [point for point in distribution.entry_points if point.group.startswith(_OURS)]
            yield from (Point(point.group, point.name, point.value) for point in mine)


def _is_unusual(finder: object) -> bool:
    """Returns whether a module finder has its own method to find distributions."""
    return finder is not PathFinder and hasattr(finder, "find_distributions")


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()


def _distributions(folder: str) -> Iterator[tuple[str, str]]:
    """Yields the name and the metadata folder of each distribution in a folder."""
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        if distribution := _named_by(name):
            yield distribution, os.path.join(folder, name)


def _named_by(folder: str) -> str:
    """Returns the distribution name in the name of a metadata folder; empty for another folder.

    As in `importlib.metadata`, the folder name decides, because the metadata can contain another
    name.
    """
    stem, dot, kind = folder.rpartition(".")
    return _normal(stem.partition("-")[0]) if dot + kind.lower() in _FOLDERS else ""


def _read(place: str) -> Iterable[Point]:
    try:
        with open(os.path.join(place, _FILE), encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:  # most distributions have no entry points
        return
    group = ""
    for line in map(str.strip, text.splitlines() if _OURS in text else ()):
        if line.startswith("["):
            group = line.strip("[]").strip()
        elif line and line[0] not in "#;" and group.startswith(_OURS):
            name, _, value = line.partition("=")
            yield Point(group, name.strip(), value.strip())
