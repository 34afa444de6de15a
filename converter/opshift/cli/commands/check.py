"""`opshift check`."""

from __future__ import annotations

import os

import click

from opshift.cli.entry import DONE, REFUSED, Output, common


@click.command
@click.argument("source", metavar="IN", type=click.Path(dir_okay=False))
@click.option("--strict", is_flag=True, help="Warnings count as errors.")
@common
def command(output: Output, source: str, strict: bool) -> int:
    """Prints everything that is wrong with IN at once; exit 1 if something is."""
    from opshift.convert.legal.rules import check_model

    with output.working(f"checking {os.path.basename(source)}"):
        found = check_model(source)
    output.result(lambda: str(found), found.as_dict)
    return REFUSED if found.fails(strict=strict) else DONE
