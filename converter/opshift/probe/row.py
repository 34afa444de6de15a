# SPDX-License-Identifier: Apache-2.0
"""Writes the outcomes of probes to a file of targets, which conversions can use at once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from opshift import toml
from opshift.errors import BadTarget
from opshift.opsets import probed, targets
from opshift.opsets.probed import FAILED
from opshift.probe.probing import Probing
from opshift.text import Line, Role

HEAD = "# Written by `opshift probe`, format 1. Use it with `--targets FILE`.\n"
SHIPPED = ".txt"
LONGEST = 160  # the most letters of a message


def write(path: Path, probing: Probing) -> None:
    """Writes the table of a release, after the tables of earlier probes in the same file."""
    if path.suffix == SHIPPED:
        _ship(path, probing.table)
        return
    tables = _known(path)
    name, text = probing.name, "\n".join(probed.written(probing.table))
    before = tables.get(name, {})
    if "probed" in before:
        table = probed.merged([probed.read(before["probed"]), probing.table])
        text = "\n".join(probed.written(table)) if table is not None else text
    row = _row(probing)
    rows = [
        release for release in before.get("releases", ()) if release["versions"] != probing.release
    ]
    tables[name] = {"probed": text, "releases": [*rows, *([row] if row else [])]}
    evidence = list(_evidence(probing))
    part = path.with_name(f"{path.name}.part")
    part.write_text(HEAD + "".join(_written(tables)) + "".join(evidence), "utf-8")
    part.replace(path)


def differences(tables: Sequence[probed.ProbeTable]) -> list[Line]:
    """Lists the operator versions whose outcomes differ between the probed releases."""
    table = probed.merged(tables)
    if table is None:
        return []
    both = frozenset(range(len(table.releases)))
    lines = [Line(f"Releases of {table.runtime} have different outcomes for:", Role.GOOD)]
    for key, versions in sorted(table.outcomes.items()):
        for since, outcomes in sorted(versions.items()):
            if any(
                where != both for of in (outcomes.types, outcomes.features) for where in of.values()
            ):
                lines.append(Line(f"  {probed.line(key, since, outcomes, table.names)}"))
    return lines


def _known(path: Path) -> dict[str, Any]:
    """Reads the tables that earlier probes wrote to a file."""
    if not path.exists():
        return {}
    text = path.read_text("utf-8")
    if not text.startswith(HEAD):
        raise BadTarget(f"{path} was not written by `opshift probe`; give another file with -o")
    return dict(toml.loads(text))


def _row(probing: Probing) -> dict[str, Any] | None:
    """Returns the versions that a release reads, unless opshift already lists them."""
    if targets.is_in_own_table(probing.name, probing.release):
        return None
    reads, row = probing.reads, dict[str, Any](versions=probing.release)
    if reads.lowest or reads.highest:
        row["onnx"] = [reads.lowest or 1, reads.highest or 0]
    for field, number in (("ml", reads.ml), ("ir", reads.ir)):
        if number is not None:
            row[field] = number
    return {**row, "source": probing.source, "date": probing.date}


def _ship(path: Path, table: probed.ProbeTable) -> None:
    """Adds the models that run to the table of opshift, without rare element types."""
    head, *texts = path.read_text("utf-8").split("\nruntime ")
    tables_by_runtime = {
        entry.runtime: entry for entry in map(probed.read, (f"runtime {text}" for text in texts))
    }
    former = [tables_by_runtime[table.runtime]] if table.runtime in tables_by_runtime else []
    merged = probed.merged([*former, probed.shippable(table)])
    if merged is not None:
        tables_by_runtime[table.runtime] = merged
    tables = ("\n".join(probed.written(entry)) for _, entry in sorted(tables_by_runtime.items()))
    path.write_text("\n\n".join([head.rstrip("\n"), *tables]) + "\n", "utf-8")


def _written(tables: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yields the tables as TOML; JSON texts, numbers and lists are also valid TOML."""
    for name, table in tables.items():
        yield f"\n[{json.dumps(name)}]\nprobed = '''\n{table['probed']}\n'''\n"
        for row in table["releases"]:
            yield f"[[{json.dumps(name)}.releases]]\n"
            yield from (f"{key} = {json.dumps(value)}\n" for key, value in row.items())


def _evidence(probing: Probing) -> Iterator[str]:
    """Yields the messages of the failures as comments."""
    yield f"\n# {probing.target} on {probing.date}, {probing.python}\n"
    for outcome in FAILED:
        for result in probing.results:
            if result.outcome == outcome:
                yield f"# {outcome}: {' '.join(str(result).split())[:LONGEST]}\n"
