# SPDX-License-Identifier: Apache-2.0
"""Defines the command `opshift check`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from opshift.cli import options
from opshift.cli.exit_codes import DONE, REFUSED
from opshift.cli.options import common, documents, guarded, results_option
from opshift.cli.terminal import Output

if TYPE_CHECKING:
    from opshift.convert.legal.findings import Findings
    from opshift.errors import OpshiftError
    from opshift.results import ModelResult


@options.command(
    "opshift check model.onnx",
    "opshift check --strict models/*.onnx",
    "opshift check models/*.onnx --results opshift.sarif --results junit.xml",
)
@click.argument("sources", metavar="IN...", nargs=-1, required=True, type=options.ModelPath())
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
@results_option
@documents
@common
def command(
    output: Output, sources: tuple[str, ...], strict: bool, results: tuple[str, ...]
) -> int:
    """Check each model IN and print every rule that it breaks.

    The exit code is 1 if a model breaks a rule.
    """
    cases: list[ModelResult] = []

    def check(source: str) -> int:
        from opshift.convert.legal.rules import check as check_model
        from opshift.errors import InvalidModel
        from opshift.opsets import described

        if described.is_document(source):
            return _document(output, source)
        with output.working(f"checking {os.path.basename(source)}"):
            try:
                findings = check_model(source)
            except InvalidModel as error:
                cases.append(_unread(source, error))
                raise
        fails = findings.fails(strict=strict)
        if results:
            cases.append(_case(source, findings, fails=fails))
        output.result(findings.lines, findings.as_dict, good=not fails)
        return REFUSED if fails else DONE

    def all_of_them() -> int:
        if results:
            from opshift import results as formats

            formats.require_writable(results)
        code = output.each(sources, lambda source: guarded(output, lambda: check(source)))
        for path in results:
            formats.write(path, cases, "opshift check")
        return code

    return guarded(output, all_of_them)


def _document(output: Output, source: str) -> int:
    """Checks an operator-set document by reading it, because the reader applies all rules."""
    from opshift.look.document_info import document_info

    document = document_info(source)
    output.result(document.lines, document.as_dict)
    return DONE


def _case(source: str, findings: Findings, *, fails: bool) -> ModelResult:
    """Returns the findings about one model in the form of a results file."""
    from opshift import results as formats

    levels = {"error": formats.ERROR, "warning": formats.WARNING}
    problems = tuple(
        formats.Problem(levels.get(finding.level, formats.NOTE), finding.rule, finding.text)
        for finding in findings.found
    )
    model = formats.name_of(source)
    state = formats.FAILED if fails else formats.PASSED
    return formats.ModelResult(model, state, {"model": model, **findings.as_dict()}, problems)


def _unread(source: str, error: OpshiftError) -> ModelResult:
    """Returns the error about an unreadable model in the form of a results file."""
    from opshift import codes
    from opshift import results as formats
    from opshift.cli import exit_codes
    from opshift.cli.terminal import ErrorForm

    model = formats.name_of(source)
    problem = formats.Problem(formats.ERROR, error.code, str(error))
    cure = codes.page(error.code).cure
    form = ErrorForm(error.code, str(error), cure, exit_codes.of_error(error))
    row = {"model": model, **form.as_dict()}
    return formats.ModelResult(model, formats.BROKEN, row, (problem,))
