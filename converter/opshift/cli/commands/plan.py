# SPDX-License-Identifier: Apache-2.0
"""Defines the command `opshift plan`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from opshift.cli import options
from opshift.cli.conversion_options import all_options
from opshift.cli.exit_codes import DONE, REFUSED
from opshift.cli.options import common, documents, reports
from opshift.cli.terminal import Output

if TYPE_CHECKING:
    from opshift.convert.request import Request
    from opshift.look.plan import Plan
    from opshift.page.sheet import Page


@options.command("opshift plan model.onnx --to 9", "opshift plan model.onnx --for tensorrt==8.4")
@click.argument("source", metavar="IN", type=options.ModelPath())
@reports
@documents
@common
@all_options
def command(
    output: Output,
    source: str,
    report: str | None,
    request: Request,
) -> int:
    """Show what a conversion of IN would do.

    If no conversion is possible, show every node that blocks it. Nothing is written.
    """
    with output.working(f"planning {os.path.basename(source)}"):
        plan, page = _planned(source, request, drawn=report is not None)
    output.page(report, page)
    output.result(plan.lines, plan.as_dict, good=plan.possible)
    return DONE if plan.possible else REFUSED


def _planned(source: str, request: Request, *, drawn: bool) -> tuple[Plan, Callable[[], Page]]:
    """Returns the plan, and a function for its page; `drawn` adds drawings of the graphs."""
    if not drawn:
        from opshift.look.planning import plan

        result = plan(source, request)
        return result, result.page
    from opshift.look.pages import complete, planned
    from opshift.model.bytes.source import Opened

    result, models = planned(file := Opened(source), request)
    return result, lambda: complete(result.page(), models, file)
