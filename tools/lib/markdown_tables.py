# SPDX-License-Identifier: Apache-2.0
"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def table(head: Sequence[object], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """The lines of a table and an empty one; none if there are no rows."""
    if not rows:
        return
    yield _row(head)
    yield "|" + "---|" * len(head)
    yield from map(_row, rows)
    yield ""


def _row(cells: Sequence[object]) -> str:
    return "| " + " | ".join(str(cell).replace("|", "/") for cell in cells) + " |"
