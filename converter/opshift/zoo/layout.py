# SPDX-License-Identifier: Apache-2.0
"""Plans the names of all results of a run before the first result is written."""

from __future__ import annotations

import functools
import os
import posixpath
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from opshift.errors import BadDestination, InvalidModel, choose_external
from opshift.model import weights
from opshift.records import dataclass
from opshift.text import printable
from opshift.zoo.sources import HIDDEN
from opshift.zoo.stores.stores import is_url, join

Pairs = Sequence[tuple[str, str]]  # the name and the path of each model


@dataclass(frozen=True, slots=True)
class Layout:
    """The names of all results of a run; a data file must not have one of these names."""

    home: str = ""
    outputs: frozenset[str] = frozenset()

    @staticmethod
    def of(models: Pairs, home: str) -> Layout:
        return Layout(home, frozenset(join(home, name) for name, _ in models))

    def require_free(self, output: str, locations: Iterable[str]) -> None:
        """Raises if a data file of a result would have the name of another file."""
        for location in locations:
            path = join(posixpath.dirname(output), location.replace(os.sep, "/"))
            if is_url(output):
                scheme, _, place = path.partition("://")
                path = f"{scheme}://{posixpath.normpath(place)}"
            else:
                path = os.path.normpath(path)
            if path in self.outputs:
                raise BadDestination(
                    f"the data file {printable(location)!r} would have the name of the result of"
                    f" another model; {choose_external('one-file', 'inline')}"
                )
            if self.home and HIDDEN in path[len(self.home) :].replace(os.sep, "/").split("/"):
                raise BadDestination(
                    f"the data file {printable(location)!r} would be in {HIDDEN}, where opshift"
                    f" keeps its own files; {choose_external('one-file', 'inline')}"
                )


def refused(models: Pairs, home: str) -> dict[str, str]:
    """Returns why results cannot have the names of their models, by the name of the model."""
    names = {name for name, _ in models}
    why: dict[str, str] = {}
    for name, _ in models:
        if HIDDEN in name.replace(os.sep, "/").split("/"):
            why[name] = f"the model is in {HIDDEN}, where opshift keeps its own files; move it"
        elif above := next((parent for parent in _parents(name) if parent in names), None):
            why[name] = (
                f"the folder would have the same name as the result {printable(above)!r}; rename"
                " one of them"
            )
    if home and not is_url(home):
        here = [(name, path) for name, path in models if not is_url(path)]
        why |= _over_sources(here, home) | _over_data(here, home)
    return why


def _parents(name: str) -> Iterator[str]:
    while name := os.path.dirname(name):
        yield name


def _over_sources(pairs: Pairs, home: str) -> dict[str, str]:
    """Finds results that would replace a model of the run, or lie outside the results folder."""
    real_of = _real_paths()
    models, real = {real_of(path) for _, path in pairs}, os.path.realpath(home)
    why: dict[str, str] = {}
    for name, _ in pairs:
        goal = real_of(os.path.join(home, name))
        if goal in models:
            why[name] = "the result would overwrite a model of this run; give another folder"
        elif not goal.startswith(os.path.join(real, "")):
            why[name] = (
                f"the result would go to {printable(goal)!r} through a link; remove the link"
            )
    return why


def _real_paths() -> Callable[[str], str]:
    """Returns a function like `realpath` that resolves each folder only once."""
    folder_of = functools.cache(os.path.realpath)

    def real(path: str) -> str:
        folder, name = os.path.split(path)
        inside = os.path.join(folder_of(folder), name)
        special = name in ("", os.curdir, os.pardir) or os.path.islink(inside)
        return os.path.realpath(inside) if special else inside

    return real


def _over_data(models: Pairs, home: str) -> dict[str, str]:
    """Finds results that would overwrite a data file, and data files that would share a name.

    If all sources are in one folder that is separate from the results folder, no such conflict is
    possible, and no model is read.
    """
    roots = set(map(os.path.realpath, {_root(name, path) for name, path in models}))
    if len(roots) == 1 and not any(_overlap(root, os.path.realpath(home)) for root in roots):
        return {}
    data = {name: list(_data_of(path)) for name, path in models}
    needed = {os.path.realpath(path) for paths in data.values() for _, path in paths}
    places: defaultdict[str, set[str]] = defaultdict(set)
    for name, paths in data.items():
        folder = os.path.dirname(os.path.join(home, name))
        for location, path in paths:
            places[os.path.normpath(os.path.join(folder, location))].add(os.path.realpath(path))
    why: dict[str, str] = {}
    for name, paths in data.items():
        folder = os.path.dirname(os.path.join(home, name))
        if os.path.realpath(os.path.join(home, name)) in needed:
            why[name] = "the result would overwrite a data file of this run; give another folder"
        for location, _ in paths:
            if len(places[os.path.normpath(os.path.join(folder, location))]) > 1:
                why[name] = (
                    f"the data file {printable(location)!r} would share its name with another file;"
                    f" {choose_external('one-file', 'inline')}"
                )
    return why


def _root(name: str, path: str) -> str:
    """Returns the folder of the run, which is the path without the model's name, or its folder."""
    return path[: -len(name)] if path.endswith(os.sep + name) else os.path.dirname(path)


def _overlap(first: str, second: str) -> bool:
    first, second = os.path.join(first, ""), os.path.join(second, "")
    return first.startswith(second) or second.startswith(first)


def _data_of(path: str) -> Iterator[tuple[str, str]]:
    """Yields the locations and paths of a model's data files; none if the model is unreadable."""
    try:
        _, large_tensors = weights.carve_file(path)
    except (InvalidModel, OSError):
        return
    for location in large_tensors.locations:
        if "\0" not in location:
            yield location, os.path.join(os.path.dirname(path), location)
