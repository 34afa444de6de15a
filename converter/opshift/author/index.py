# SPDX-License-Identifier: Apache-2.0
"""What the modules of a package declare: a conversion imports only those that it needs.

The file `index.txt` of a package has a line for each module: its name, a checksum of its source,
`domain:op:start:to` of each verdict, and `kind:domain:op` of everything else. A module whose
source has another checksum, or that has no line, is imported at once; so a new adapter is found
before the index is written again by `python -m tools.author index`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, TypeAlias

INDEX = "index.txt"

Crossing: TypeAlias = tuple[str, str, int, int]  # (domain, op, from, to)


class TraitKey(NamedTuple):
    """The place of a trait: the table of its kind, and the operator."""

    table: str
    domain: str
    op: str


def known(package: ModuleType) -> dict[str, list[Crossing | TraitKey]]:
    """The modules that need not be imported to know what they declare, and what that is."""
    found = {}
    for folder in map(Path, getattr(package, "__path__", ())):
        if (folder / INDEX).is_file():
            for line in (folder / INDEX).read_text("utf-8").splitlines():
                name, checksum, *words = line.split()
                source = _source(folder, name)
                if source is not None and _checksum(source) == checksum:
                    module = package.__name__ + ("" if name == "." else f".{name}")
                    found[module] = [_parsed(word) for word in words]
    return found


def line(package: ModuleType, module: ModuleType, declared: Iterable[Crossing | TraitKey]) -> str:
    """The line of a module."""
    name = module.__name__.removeprefix(package.__name__).lstrip(".") or "."
    source = Path(str(module.__file__))
    words = sorted(":".join(map(str, one)) for one in declared)
    return " ".join([name, _checksum(source), *words])


def names(package: ModuleType) -> Iterator[str]:
    """The names of a package and of all modules in it, none of which is imported."""
    yield package.__name__
    for folder in map(Path, getattr(package, "__path__", ())):
        yield from _names(package.__name__, folder)


def _names(prefix: str, folder: Path) -> Iterator[str]:
    for path in sorted(folder.iterdir(), key=lambda path: path.stem):
        name = f"{prefix}.{path.stem}"
        if path.suffix == ".py" and path.stem != "__init__":
            yield name
        elif (path / "__init__.py").is_file():
            yield name
            yield from _names(name, path)


def _source(folder: Path, name: str) -> Path | None:
    place = folder.joinpath(*name.split(".")) if name != "." else folder
    candidates = (place.with_name(f"{place.name}.py"), place / "__init__.py")
    return next((path for path in candidates if path.is_file()), None)


def _checksum(source: Path) -> str:
    # The line endings of a checkout must not matter.
    text = source.read_bytes().replace(b"\r\n", b"\n")
    return f"{zlib.crc32(text):08x}"


def _parsed(word: str) -> Crossing | TraitKey:
    first, second, third, *rest = word.split(":")
    return (first, second, int(third), int(*rest)) if rest else TraitKey(first, second, third)
