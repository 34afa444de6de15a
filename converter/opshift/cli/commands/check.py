"""`opshift check`."""

from __future__ import annotations

import os

import click

from opshift.cli import options
from opshift.cli.options import common, documents, guarded
from opshift.cli.output import DONE, REFUSED, Output


@options.command("opshift check model.onnx", "opshift check --strict models/*.onnx")
@click.argument("sources", metavar="IN...", nargs=-1, required=True, type=click.Path())
@click.option("--strict", is_flag=True, help="Warnings count as errors.")
@documents
@common
def command(output: Output, sources: tuple[str, ...], strict: bool) -> int:
    """Prints everything that is wrong with each IN at once; exit code 1 if something is wrong."""

    def check(source: str) -> int:
        from opshift.convert.legal.rules import check_model

        with output.working(f"checking {os.path.basename(source)}"):
            found = check_model(source)
        fails = found.fails(strict=strict)
        output.result(found.lines, found.as_dict, good=not fails)
        return REFUSED if fails else DONE

    return output.each(sources, lambda source: guarded(output, lambda: check(source)))
