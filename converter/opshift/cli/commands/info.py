# SPDX-License-Identifier: Apache-2.0
"""Defines the command `opshift info`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from opshift.cli import doors, options
from opshift.cli.exit_codes import DONE
from opshift.cli.options import common, documents, guarded
from opshift.cli.terminal import Output

if TYPE_CHECKING:
    from opshift.look.document_info import DocumentInfo
    from opshift.look.info import Info
    from opshift.text import Line


@options.command("opshift info model.onnx", "opshift model.onnx")
@click.argument("sources", metavar="IN...", nargs=-1, required=True, type=options.ModelPath())
@documents
@common
def command(output: Output, sources: tuple[str, ...]) -> int:
    """Describe each model IN.

    The description contains the versions, metadata, interface, nodes and weights, and the runtimes
    that read these versions. IN may also be an operator-set document (.onnxopset).
    """

    def answer(source: str) -> int:
        description = _found(source)
        next_steps = _next_steps(description) if len(sources) == 1 else ()
        output.result(lambda: [*description.lines(), *next_steps], description.as_dict)
        return DONE

    return output.each(
        sources, lambda source: guarded(output, lambda: answer(source)), headed=False
    )


def _found(source: str) -> Info | DocumentInfo:
    from opshift.opsets import described

    if described.is_document(source):
        from opshift.look.document_info import document_info

        return document_info(source)
    from opshift.look.info import info

    return info(source)


def _next_steps(description: Info | DocumentInfo) -> Iterable[Line]:
    """Returns the next commands for a model; there are none for an operator-set document."""
    from opshift.look.info import Info

    return doors.lines(description.path) if isinstance(description, Info) else ()
