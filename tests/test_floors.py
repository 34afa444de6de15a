# SPDX-License-Identifier: Apache-2.0
"""The architecture page shows the rooms and floors of the import contract, and files that exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import opshift
import pytest
from opshift import toml
from opshift.model.cycles import cycles

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "explain" / "architecture.md"
ENGINE = Path(opshift.__file__).parent


def floors() -> list[set[str]]:
    """The rooms of each floor of the contract, from the lowest floor to the highest."""
    contracts = toml.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = next(c["layers"] for c in contracts["contracts"] if c["id"] == "floors")
    return [
        {room.strip().removeprefix("opshift.") for room in layer.split(":")}
        for layer in reversed(layers)
    ]


def test_the_page_shows_the_floors_of_the_contract():
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \| [A-Z].*\. \|$", PAGE.read_text(), re.M)
    shown: dict[int, set[str]] = {}
    for floor, room in rows:
        shown.setdefault(int(floor), set()).add(room)
    assert shown == dict(enumerate(floors()))


def test_every_module_of_the_engine_is_in_a_room():
    modules = {path.stem for path in ENGINE.glob("*.py")} | {
        path.name for path in ENGINE.iterdir() if (path / "__init__.py").exists()
    }
    assert modules - {"__init__", "__main__"} == set().union(*floors())


@pytest.mark.parametrize(
    "path", sorted(set(re.findall(r"`([\w/]+\.(?:py|toml))`", PAGE.read_text())))
)
def test_every_file_of_the_page_exists(path):
    places = (ROOT / path, ENGINE / path)
    assert any(place.exists() for place in places), (
        f"{PAGE.name} names {path}, which does not exist"
    )


def modules() -> dict[str, ast.Module]:
    """The modules of the engine by their names."""
    found = {}
    for path in sorted(ENGINE.rglob("*.py")):
        parts = path.relative_to(ENGINE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def imported(tree: ast.Module, known: set[str]) -> Iterator[str]:
    """Returns the imports of a module: at the top, inside of functions, and for typing."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (one if one in known else node.module for one in inner)


def test_no_imports_form_a_circle():
    """Imports inside of functions and for typing count; shared concepts belong to a lower floor."""
    trees = modules()
    edges = {
        name: {one for one in imported(tree, set(trees)) if one in trees and one != name}
        for name, tree in trees.items()
    }
    assert sum(map(len, edges.values())) > len(edges)
    assert not [sorted(cycle) for cycle in cycles(edges)]
