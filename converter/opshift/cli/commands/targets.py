"""`opshift targets`."""

from __future__ import annotations

import dataclasses

import click

from opshift.cli.entry import DONE, Output, common


@click.command
@click.argument("name", required=False, metavar="[NAME[==VERSION]]")
@common
def command(output: Output, name: str | None) -> int:
    """Lists the runtimes and devices that --for knows, what they take, and who says so."""
    from opshift import versions
    from opshift.opsets import targets
    from opshift.report import SCHEMA_VERSION, table

    rows = targets.table()
    if name is not None:
        one = name.lower() in {row.name for row in rows}
        rows = [row for row in rows if row.name == name.lower()] if one else [targets.find(name)]
    header = ("target", "versions", "ai.onnx", "ai.onnx.ml", "IR", "from")
    output.result(
        lambda: table(
            header,
            (
                (
                    row.name,
                    row.versions or "any",
                    *(
                        str(n or "-")
                        for n in (row.imports.get(""), row.imports.get(versions.ML), row.ir)
                    ),
                    row.same_as or row.source,
                )
                for row in rows
            ),
        ),
        lambda: {
            "schema_version": SCHEMA_VERSION,
            "kind": "targets",
            "targets": [dataclasses.asdict(row) for row in rows],
        },
    )
    return DONE
