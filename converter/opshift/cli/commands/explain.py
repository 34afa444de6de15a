# SPDX-License-Identifier: Apache-2.0
"""Defines the command `opshift explain`."""

from __future__ import annotations

import click

from opshift import codes
from opshift.cli import options
from opshift.cli.complete import complete_codes
from opshift.cli.exit_codes import DONE
from opshift.cli.options import common
from opshift.cli.terminal import Output
from opshift.codes.page_text import CodeText
from opshift.json_form import Form
from opshift.records import dataclass
from opshift.text import Line, Role, suggestion


@dataclass(frozen=True, slots=True)
class Codes(Form):
    """All codes.

    Printed by `opshift explain`.
    """

    KIND = "codes"

    codes: tuple[CodeText, ...]
    """The codes in alphabetical order."""


@dataclass(frozen=True, slots=True)
class Code(Form):
    """One code.

    Printed by `opshift explain CODE`.
    """

    KIND = "code"
    MERGED = ("page",)

    page: CodeText


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
            lambda: Codes(tuple(pages)).as_dict(),
        )
        return DONE
    name = code.upper()
    if name not in codes.names():
        cure = suggestion(code, codes.names()) or "; `opshift explain` lists the codes"
        raise click.UsageError(f"{code!r} is not a code{cure}")
    page = codes.page(name)
    output.result(
        lambda: (Line(line, _role(line)) for line in page.text.rstrip().splitlines()),
        lambda: Code(page).as_dict(),
    )
    return DONE


def _role(line: str) -> Role:
    return Role.CAUTION if line.startswith("#") else Role.PLAIN
