# SPDX-License-Identifier: Apache-2.0
"""Reads the tables of a package of adapters, so that a conversion imports only the needed modules.

The file `index.txt` of a package has a line for each module: its name, a checksum of its source,
`domain:op:start:to` for each adapter, and `kind:domain:op` for each other declaration. A module
without a line, or whose source has another checksum, is imported at once. Therefore opshift finds a
new adapter even before `python -m tools.author index` updates the index.

The file `writes.txt` lists the operators that adapters write, one line for each kind of result.
`python -m tools.author index` fills the file by converting the examples of the adapters. The
planner reads the file before a conversion; an operator that the file lacks is planned when an
adapter writes the operator.
"""

from __future__ import annotations

import functools
import os
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import NamedTuple, TypeAlias

INDEX = "index.txt"
WRITES = "writes.txt"
_START = "__init__.py"

Crossing: TypeAlias = tuple[str, str, int, int]  # (domain, op, from, to)


class TraitKey(NamedTuple):
    """Identifies a declaration that is not an adapter, by its table and its operator."""

    table: str
    domain: str
    op: str


def known(package: ModuleType, sources: Mapping[str, str]) -> dict[str, list[Crossing | TraitKey]]:
    """Returns the declarations of each module whose index line is current, without an import."""
    current = {}
    for folder in getattr(package, "__path__", ()):
        for line in _lines(os.path.join(folder, INDEX)):
            name, checksum, *words = line.split()
            module = package.__name__ + ("" if name == "." else f".{name}")
            if (source := sources.get(module)) and _checksum(source) == checksum:
                current[module] = [_parsed(word) for word in words]
    return current


def line(package: ModuleType, module: ModuleType, declared: Iterable[Crossing | TraitKey]) -> str:
    """Returns the index line of a module."""
    name = module.__name__.removeprefix(package.__name__).lstrip(".") or "."
    words = sorted(":".join(map(str, key)) for key in declared)
    return " ".join([name, _checksum(str(module.__file__)), *words])


def modules(package: ModuleType) -> dict[str, str]:
    """Returns the source path of each module in a package by name, without an import."""
    paths = {package.__name__: package.__file__ or ""}
    for folder in getattr(package, "__path__", ()):
        paths.update(_modules(package.__name__, folder))
    return paths


def _modules(prefix: str, folder: str) -> Iterator[tuple[str, str]]:
    # Every conversion runs this function, and path objects would be too slow.
    with os.scandir(folder) as entries:
        listed = sorted(entries, key=lambda entry: os.path.splitext(entry.name)[0])
    for entry in listed:
        stem, ending = os.path.splitext(entry.name)
        name, start = f"{prefix}.{stem}", os.path.join(entry.path, _START)
        if ending == ".py" and entry.name != _START:
            yield name, entry.path
        elif not ending and entry.is_dir() and os.path.isfile(start):
            yield name, start
            yield from _modules(name, entry.path)


def _lines(path: str) -> list[str]:
    if not os.path.isfile(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [line for line in file.read().splitlines() if not line.startswith("#")]


def _checksum(source: str) -> str:
    with open(source, "rb", buffering=0) as file:
        # The line endings of a checkout must not change the checksum.
        lines = file.read().replace(b"\r\n", b"\n")
    return f"{zlib.crc32(lines):08x}"


def _parsed(word: str) -> Crossing | TraitKey:
    first, second, third, *last = word.split(":")
    return (first, second, int(third), int(*last)) if last else TraitKey(first, second, third)


def choices(package: str, row: str) -> tuple[frozenset[str], ...]:
    """Returns the sets of operators that an adapter may write, one set for each kind of result."""
    return _written(package).get(row, ())


@functools.cache
def _written(package: str) -> Mapping[str, tuple[frozenset[str], ...]]:
    written: dict[str, tuple[frozenset[str], ...]] = {}
    for folder in getattr(sys.modules.get(package), "__path__", ()):
        for name, *ops in map(str.split, _lines(os.path.join(folder, WRITES))):
            written[name] = (*written.get(name, ()), frozenset(ops))
    return written
