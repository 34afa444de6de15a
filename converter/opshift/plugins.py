# SPDX-License-Identifier: Apache-2.0
"""The offers of installed packages to opshift, by the groups of their entry points.

Every command needs it. The files are read here, because `importlib.metadata` costs a short
command more than its own work.
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
_OURS = "opshift."  # every group of ours begins so
IGNORED = "OPSHIFT_IGNORE"  # distributions without parts for opshift: names or folders


class Point(NamedTuple):
    """An entry point: a module or an attribute of a module, and its name."""

    group: str
    name: str
    value: str

    @property
    def module(self) -> str:
        """The name of the module that is offered, or whose attribute is."""
        return self.value.partition("[")[0].partition(":")[0].strip()

    def load(self) -> Any:
        """Imports the offered object."""
        attribute = self.value.partition("[")[0].partition(":")[2]
        found: Any = importlib.import_module(self.module)
        for part in filter(None, attribute.strip().split(".")):
            found = getattr(found, part)
        return found


def offered(group: str) -> list[Point]:
    """The entry points of a group, by name."""
    found = [point for point in _all(tuple(sys.path), _ignored()) if point.group == group]
    return sorted(found, key=lambda point: point.name)


def data(package: str, name: str) -> bytes:
    """A file in a package."""
    found = pkgutil.get_data(package, name)
    if found is None:  # a package without a file of its own, or in an archive of an unusual kind
        from importlib.resources import files

        found = files(package).joinpath(name).read_bytes()
    return found


def distributions(path: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The normalized names of the distributions on a path, and the folders of their metadata."""
    for folder in path:
        yield from _distributions(folder or os.curdir)


def _ignored() -> frozenset[str]:
    named = filter(None, os.environ.get(IGNORED, "").split(os.pathsep))
    return frozenset(one if os.sep in one else _normal(one) for one in named)


@functools.lru_cache(maxsize=1)
def _all(path: tuple[str, ...], ignored: frozenset[str] = frozenset()) -> tuple[Point, ...]:
    if any(_is_unusual(finder) for finder in sys.meta_path) or any(map(os.path.isfile, path)):
        return tuple(_by_importlib(ignored))
    found: dict[str, str] = {}
    for name, place in distributions(path):
        if not ignored & {name, place}:
            found.setdefault(name, place)  # the first of a name is the one that is imported
    return tuple(point for place in found.values() for point in _read(place))


def _by_importlib(ignored: frozenset[str]) -> Iterator[Point]:
    """The entry points from the finders, which also read archives."""
    from importlib import metadata

    seen = set[str]()
    for one in metadata.distributions():
        place = str(getattr(one, "_path", ""))
        name = _named_by(os.path.basename(place)) or _normal(one.metadata["Name"] or "")
        if name not in seen and not ignored & {name, place}:
            seen.add(name)
            mine = [point for point in one.entry_points if point.group.startswith(_OURS)]
            yield from (Point(point.group, point.name, point.value) for point in mine)


def _is_unusual(finder: object) -> bool:
    """Whether a finder of modules has its own way to find distributions."""
    return finder is not PathFinder and hasattr(finder, "find_distributions")


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()


def _distributions(folder: str) -> Iterator[tuple[str, str]]:
    """The distributions in a folder of the path: their names and where their metadata is."""
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        if found := _named_by(name):
            yield found, os.path.join(folder, name)


def _named_by(folder: str) -> str:
    """The name of the distribution whose metadata is in a folder of this name, or nothing.

    This name counts, as in `importlib.metadata`: the metadata itself can name another.
    """
    stem, dot, kind = folder.rpartition(".")
    return _normal(stem.partition("-")[0]) if dot + kind.lower() in _FOLDERS else ""


def _read(place: str) -> Iterable[Point]:
    try:
        with open(os.path.join(place, _FILE), encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:  # most distributions offer nothing
        return
    group = ""
    for line in map(str.strip, text.splitlines() if _OURS in text else ()):
        if line.startswith("["):
            group = line.strip("[]").strip()
        elif line and line[0] not in "#;" and group.startswith(_OURS):
            name, _, value = line.partition("=")
            yield Point(group, name.strip(), value.strip())
