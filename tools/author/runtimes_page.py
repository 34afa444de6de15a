# SPDX-License-Identifier: Apache-2.0
"""Generates the page of runtimes: the opsets of each release, and the nodes it cannot run."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from opshift.author import registry
from opshift.author.misreadings import all_misreadings
from opshift.opsets import kernels, targets
from opshift.opsets.targets import RuntimeRelease

LONG = 120  # the most letters of a cell that is shown in full

HEAD = """# Which opset does my runtime read, and what does it not run?

This page is generated from the data that `opshift accepts`, `opshift targets` and `--for` use.
`opshift accepts MODEL TARGET` applies a row to a model.
[Targets by name](../../howto/targets.md) explains the fields. An empty cell means that no limit is
known, not that there is none.
"""


def page() -> str:
    """Returns the page."""
    lines = [HEAD]
    for name, rows in groupby(targets.releases_of(targets.ALL), key=lambda row: row.name):
        lines += [f"## {name}", "", *_table(list(rows)), ""]
    return "\n".join(lines).rstrip() + "\n"


def _table(rows: list[RuntimeRelease]) -> Iterator[str]:
    """Yields the table of one runtime; empty columns are left out."""
    cells = [
        {
            "release": row.shown.partition("==")[2] or "any",
            "ai.onnx": _range(row),
            "other domains": ", ".join(f"{d} {v}" for d, v in sorted(row.imports.items()) if d),
            "IR up to": str(row.ir or ""),
            "does not run": "<br>".join(map(_folded, _lacks(row))),
            "source": f"{row.source} ({row.date})" if row.date else row.source,
            "probe": f"{how.source} ({how.date})" if (how := row.probed and row.probed.how) else "",
        }
        for row in rows
    ]
    columns = [name for name in cells[0] if any(row[name] for row in cells)]
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"
    for row in cells:
        yield f"| {' | '.join(row[name].replace('|', chr(92) + '|') for name in columns)} |"


def _folded(text: str) -> str:
    """Hides a long list behind its first words, which open the list on a click."""
    if len(text) <= LONG:
        return text
    begin = text[:LONG].rpartition(" ")[0].replace("`", "")
    return f"<details><summary>{begin} …</summary>{text}</details>"


def _range(row: RuntimeRelease) -> str:
    low, high = row.floors.get("", 0), row.imports.get("")
    if high is None:
        return f"{low} and above" if low else ""
    return f"{low} to {high}" if low else f"up to {high}"


def _lacks(row: RuntimeRelease) -> Iterator[str]:
    """Yields what a release does not run, with source and date if they are known."""
    if row.without:
        yield f"operators: {', '.join(op.shown for op in row.without)}"
    if row.only:
        yield f"operators other than {', '.join(sorted(op.shown for op in row.only))}"
    for column in targets.described().values():
        if column.lacks and (texts := row.texts(column.name)):
            yield column.lacks.format(", ".join(texts))
    if not row.functions:
        yield "functions of the model"
    misreadings = all_misreadings(registry.default(), row)
    forms = {(misread.described(op), misread.source, misread.date) for op, misread in misreadings}
    for says, source, date in sorted(forms):
        yield f"{says} ({source}; {date})"
    if row.kernels and not row.provider and (count := _without_kernels(row)):
        fact = row.facts.get("kernels")
        origin = f" ({fact.source}; {fact.date})" if fact is not None else ""
        yield f"{count} operators of ai.onnx have no kernel for an element type{origin}"


def _without_kernels(row: RuntimeRelease) -> int:
    table = kernels.shipped()[row.kernels]
    return sum(
        any(row.no_kernels(key, since) for since in versions)
        for key, versions in table.lacks.items()
        if not key[0]
    )
