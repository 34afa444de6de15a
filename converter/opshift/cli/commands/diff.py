"""`opshift diff`."""

from __future__ import annotations

import click

from opshift.cli import options
from opshift.cli.options import common
from opshift.cli.output import DONE, Output


@options.command("opshift diff old.onnx new.onnx")
@click.argument("first", metavar="A", type=click.Path(dir_okay=False))
@click.argument("second", metavar="B", type=click.Path(dir_okay=False))
@common
def command(output: Output, first: str, second: str) -> int:
    """Says whether going from A to B is a MAJOR, MINOR or PATCH change for its users, and why."""
    from opshift.model.diff import diff

    found = diff(first, second)
    output.result(found.lines, found.as_dict)
    return DONE
