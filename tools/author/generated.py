# SPDX-License-Identifier: Apache-2.0
"""Lists the generated files of the repository, which `update` writes and `check` compares."""

from __future__ import annotations

import argparse
import importlib
import multiprocessing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
NAMES = {
    "ops_database": ("shipped_tables", "database_files"),
    "targets": ("shipped_tables", "target_files"),
    "schema": ("shipped_tables", "schema_files"),
    "index": ("adapter_index", "files"),
    "plans": ("shipped_tables", "plan_files"),
    "lengths": ("lengths", "files"),
}
"""The modules and functions that generate files, in the order of their dependencies."""
FORMAT = 1  # the format of the text files; raise it if lines get another meaning


def names(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> Sequence[str]:
    """Returns the names of generated files on a command line; all names if it has none."""
    parser.add_argument("names", nargs="*", metavar="NAME")
    chosen: list[str] = parser.parse_args(argv).names
    if wrong := [name for name in chosen if name not in NAMES]:
        parser.error(f"{wrong[0]!r} generates no file; give names of {', '.join(NAMES)}")
    return chosen or list(NAMES)


def update(chosen: Sequence[str]) -> list[str]:
    """Replaces the files that differ from the output of their generators.

    Each generator runs in a process of its own, so that it reads the files of earlier generators.
    """
    calls = [(name, True) for name in chosen]
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        changed = pool.starmap(differing, calls, chunksize=1)
    return [path for paths in changed for path in paths]


def generators(name: str) -> Mapping[Path, Callable[[], Any]]:
    """Returns the files of a name, each with the function that generates its content."""
    module, function = NAMES[name]
    files: Mapping[Path, Callable[[], Any]] = getattr(
        importlib.import_module(f"tools.author.{module}"), function
    )()
    return files


def headed(name: str, text: str) -> str:
    """Puts a line with the generating command and the format above a text."""
    return f"# python -m tools.author update {name}, format {FORMAT}\n{text}"


def differing(name: str, write: bool = False) -> list[str]:
    """Returns the files that differ from the output of their generators; `write` replaces them."""
    paths = []
    for path, generate in generators(name).items():
        content = generate()
        if path.suffix == ".txt":
            content = headed(name, content)
        if _content(path, content) != content:
            paths.append(path.relative_to(ROOT).as_posix())
            if write and isinstance(content, bytes):
                path.write_bytes(content)
            elif write:
                path.write_text(content, "utf-8", newline="\n")
    return paths


def _content(path: Path, wanted: str | bytes) -> str | bytes | None:
    """Returns the content of a file, with line feeds for the line ends of the platform."""
    if not path.is_file():
        return None
    return path.read_bytes() if isinstance(wanted, bytes) else path.read_text("utf-8")
