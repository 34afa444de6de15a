"""`opshift accepts`."""

from __future__ import annotations

import os

import click

from opshift.cli.entry import DONE, REFUSED, Output, common


@click.command
@click.argument("source", metavar="IN", type=click.Path(dir_okay=False))
@click.option("--for", "runtime", metavar="NAME==VERSION", required=True, help="The runtime.")
@common
def command(output: Output, source: str, runtime: str) -> int:
    """Tells whether a runtime runs IN as it is, with every reason; exit 1 if it does not.

    It looks at the IR version, the operator sets, the operators, their types and forms. Nothing is
    converted.
    """
    from opshift.convert.look.accepts import accepts

    with output.working(f"looking at {os.path.basename(source)}"):
        found = accepts(source, runtime)
    output.result(lambda: str(found), found.as_dict)
    return DONE if found.accepted else REFUSED
