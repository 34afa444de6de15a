"""`opshift lowest`."""

from __future__ import annotations

import os

import click

from opshift.cli import options
from opshift.cli.options import common, guarded
from opshift.cli.output import DONE, Output


@options.command("opshift lowest model.onnx")
@click.argument("sources", metavar="IN...", nargs=-1, required=True, type=click.Path())
@click.option("--allow-approximate", is_flag=True, help="Count forms that are not exactly equal.")
@common
def command(output: Output, sources: tuple[str, ...], allow_approximate: bool) -> int:
    """Shows the lowest and highest versions that each IN can have, as it is and by conversion."""

    def look(source: str) -> int:
        from opshift.convert.look.lowest import lowest_versions

        with output.working(f"trying {os.path.basename(source)}"):
            found = lowest_versions(source, allow_approximate=allow_approximate)
        output.result(found.lines, found.as_dict)
        return DONE

    return output.each(sources, lambda source: guarded(output, lambda: look(source)))
