"""`opshift targets`."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING

import click

from opshift.cli import options
from opshift.cli.options import common, documents
from opshift.cli.output import DONE, Output

if TYPE_CHECKING:
    from opshift.opsets.targets import Ceiling


@options.command(
    "opshift targets", "opshift targets onnxruntime==1.10", "opshift targets model.onnx"
)
@click.argument("words", required=False, nargs=-1, metavar="[MODEL] [NAME[==VERSION]]...")
@click.option("--json", "as_json", is_flag=True, help="The short form of --output-format json.")
@documents
@common
def command(output: Output, words: tuple[str, ...], as_json: bool) -> int:
    """List the runtimes that --for knows.

    With MODEL, show which of them run the model as it is and after a conversion.
    """
    if as_json:
        output.form = "json"
    if words and os.path.isfile(words[0]):
        return _survey(output, words[0], words[1:])
    return _list(output, words)


def _survey(output: Output, source: str, names: tuple[str, ...]) -> int:
    from opshift.convert.look.accepts import survey

    with output.working(f"trying {os.path.basename(source)}"):
        found = survey(source, names)
    output.result(found.lines, found.as_dict)
    return DONE


def _list(output: Output, words: tuple[str, ...]) -> int:
    from opshift.opsets import targets
    from opshift.report import SCHEMA_VERSION
    from opshift.text import table

    rows = [row for word in words for row in targets.rows(word)] if words else targets.table()
    header = ("target", "versions", "ai.onnx", "ai.onnx.ml", "IR", "lacks", "date", "from")
    output.result(
        lambda: table(header, map(_cells, rows)),
        lambda: {
            "schema_version": SCHEMA_VERSION,
            "kind": "targets",
            "targets": [dataclasses.asdict(row) for row in rows],
        },
    )
    return DONE


def _cells(row: Ceiling) -> tuple[str, ...]:
    from opshift import versions

    lacks = [one.shown for one in row.without]
    lacks += [*row.types, *(form.says for form in row.forms)]
    return (
        row.name, row.versions or "any", _range(row, ""), _range(row, versions.ML),
        str(row.ir or "-"), ", ".join(lacks) or "-", row.date or "-",
        row.same_as or row.remark or row.source,
    )  # fmt: skip


def _range(row: Ceiling, domain: str) -> str:
    top, low = row.imports.get(domain), row.floors.get(domain)
    if domain == "" and row.prefer:
        return f"best {row.prefer}"
    return (f"{low}-{top}" if low else str(top)) if top else "-"
