"""Which modules of a package declare which verdicts: a conversion imports only what it needs.

The file `index.txt` of a package has a line for each module that declares verdicts and nothing
else: its name, a checksum of its source, and `domain:op:start:to` of each verdict. A module whose
source has another checksum, or that has no line, is imported at once; so a new adapter is found
before the index is written again by `python -m tools.adapter_index`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

INDEX = "index.txt"

Crossing: TypeAlias = tuple[str, str, int, int]  # (domain, op, from, to)


def known(package: ModuleType) -> dict[str, list[Crossing]]:
    """The modules that need not be imported to know what they declare, and what that is."""
    found = {}
    for folder in map(Path, getattr(package, "__path__", ())):
        if (folder / INDEX).is_file():
            for line in (folder / INDEX).read_text("utf-8").splitlines():
                name, checksum, *verdicts = line.split()
                source = _source(folder, name)
                if source is not None and _checksum(source) == checksum:
                    module = package.__name__ + ("" if name == "." else f".{name}")
                    found[module] = [_crossing(word) for word in verdicts]
    return found


def line(package: ModuleType, module: ModuleType, verdicts: Iterable[Crossing]) -> str:
    """The line of a module."""
    name = module.__name__.removeprefix(package.__name__).lstrip(".") or "."
    source = Path(str(module.__file__))
    words = (":".join(map(str, crossing)) for crossing in sorted(verdicts))
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


def _crossing(word: str) -> Crossing:
    domain, op, start, to = word.split(":")
    return domain, op, int(start), int(to)
