# SPDX-License-Identifier: Apache-2.0
"""Tables for documents, and the place between two comments where a tool keeps its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path


def table(head: Sequence[object], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """The lines of a table and an empty one; none where there are no rows."""
    if not rows:
        return
    yield _row(head)
    yield "|" + "---|" * len(head)
    yield from map(_row, rows)
    yield ""


def _row(cells: Sequence[object]) -> str:
    return "| " + " | ".join(str(cell).replace("|", "/") for cell in cells) + " |"


def write_between(path: Path, mark: str, text: str) -> None:
    """Replaces what stands between two comments, or appends them."""
    begin, end = f"<!-- {mark}:begin -->", f"<!-- {mark}:end -->"
    old = path.read_text() if path.exists() else "# Conformance\n"
    if begin not in old:
        old = f"{old.rstrip()}\n\n{begin}\n{end}\n"
    head, rest = old.split(begin)
    path.write_text(f"{head}{begin}\n{text}\n{end}{rest.split(end)[1]}")
