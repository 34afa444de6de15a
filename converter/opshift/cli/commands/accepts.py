"""`opshift accepts`."""

from __future__ import annotations

import os

import click

from opshift.cli import options
from opshift.cli.options import common
from opshift.cli.output import DONE, REFUSED, Output


@options.command("opshift accepts model.onnx --for onnxruntime==1.10")
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
    output.result(found.lines, found.as_dict, good=found.accepted)
    return DONE if found.accepted else REFUSED
