# SPDX-License-Identifier: Apache-2.0
"""Defines the command `opshift explain`."""

from __future__ import annotations

import dataclasses

import click

from opshift import codes
from opshift.cli import options
from opshift.cli.complete import complete_codes
from opshift.cli.exit_codes import DONE
from opshift.cli.options import common
from opshift.cli.terminal import Output
from opshift.text import Line, Role, suggestion


@options.command("opshift explain NEEDS_SHAPE", "opshift explain")
@click.argument("code", required=False, shell_complete=complete_codes)
@common
def command(output: Output, code: str | None) -> int:
    """Explain the code of a message, and how to solve the problem.

    Without CODE, list all codes.
    """
    if code is None:
        pages = [codes.page(name) for name in codes.names()]
        output.result(
            lambda: (Line(f"{page.code:20}  {page.sentence}") for page in pages),
            lambda: {
                "schema_version": 1,
                "kind": "codes",
                "codes": [dataclasses.asdict(page) for page in pages],
            },
        )
        return DONE
    name = code.upper()
    if name not in codes.names():
        cure = suggestion(code, codes.names()) or "; `opshift explain` lists the codes"
        raise click.UsageError(f"{code!r} is not a code{cure}")
    page = codes.page(name)
    output.result(
        lambda: (Line(line, _role(line)) for line in page.text.rstrip().splitlines()),
        lambda: {"schema_version": 1, "kind": "code", **dataclasses.asdict(page)},
    )
    return DONE


def _role(line: str) -> Role:
    return Role.CAUTION if line.startswith("#") else Role.PLAIN
