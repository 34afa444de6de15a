# SPDX-License-Identifier: Apache-2.0
"""Defines the command `opshift lowest`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from opshift.cli import options
from opshift.cli.conversion_options import permissions_for_versions
from opshift.cli.exit_codes import DONE
from opshift.cli.options import common, documents, guarded
from opshift.cli.terminal import Output

if TYPE_CHECKING:
    from opshift.convert.request import Request


@options.command("opshift lowest model.onnx")
@click.argument("sources", metavar="IN...", nargs=-1, required=True, type=options.ModelPath())
@documents
@common
@permissions_for_versions
def command(output: Output, sources: tuple[str, ...], request: Request) -> int:
    """Show the lowest and highest versions that each model IN can have.

    The answer has two ranges: versions at which no node must be rewritten, and versions that a
    conversion can reach.
    """

    def answer(source: str) -> int:
        from opshift.look.lowest import lowest_versions

        with output.working(f"trying {os.path.basename(source)}"):
            versions = lowest_versions(source, request)
        output.result(versions.lines, versions.as_dict)
        return DONE

    return output.each(sources, lambda source: guarded(output, lambda: answer(source)))
