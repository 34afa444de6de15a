# SPDX-License-Identifier: Apache-2.0
"""`opshift info`."""

from __future__ import annotations

import click

from opshift.cli import options
from opshift.cli.options import common, documents, guarded
from opshift.cli.terminal import DONE, Output


@options.command("opshift info model.onnx", "opshift model.onnx")
@click.argument("sources", metavar="IN...", nargs=-1, required=True, type=click.Path())
@documents
@common
def command(output: Output, sources: tuple[str, ...]) -> int:
    """Show what each model IN is.

    The answer lists versions, interface, nodes, weights, and the runtimes whose versions fit.
    """

    def look(source: str) -> int:
        from opshift.convert.look.info import info

        found = info(source)
        output.result(found.lines, found.as_dict)
        return DONE

    return output.each(sources, lambda source: guarded(output, lambda: look(source)), headed=False)
