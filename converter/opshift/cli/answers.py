# SPDX-License-Identifier: Apache-2.0
"""Prints the outcome of a conversion: a summary, the written file, then the details."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from opshift.cli.exit_codes import DONE, REFUSED, WOULD_CHANGE
from opshift.cli.terminal import Output
from opshift.text import Line, Role, shortened, size

if TYPE_CHECKING:
    from opshift.report import Report
    from opshift.verify import Verification
    from opshift.verify.trials import Trials

VERBS = {"write": "Converted", "check": "Would change", "dry run": "Would convert"}


def converted(
    talk: Output, report: Report, action: str, written: Sequence[str],
    verification: Verification | None = None, trials: Trials | None = None, *, kept: bool = True,
) -> int:  # fmt: skip
    """Prints the report of a conversion, or of a dry run, and returns the exit code.

    `written` has the files of the result: the model, then its data files.
    `kept` is False if the runtime ran none of the tried results, so that no file was written.
    """

    def data() -> dict[str, Any]:
        if verification is None and trials is None:
            return report.as_dict()
        from opshift.verify.trials import CheckedReport

        return CheckedReport(report, verification, trials).as_dict()

    if trials is not None and not kept:
        return talk.refused(lambda: _not_written(trials), data)
    if verification is not None and not verification.equal:
        return talk.refused(lambda: _not_written(verification), data)
    runs = trials.runs if trials is not None else not (report.runtime and report.runtime.reasons)
    changes = action == "check" and report.changed
    good = runs and not changes
    talk.result(lambda: _done(report, action, written, verification, trials), data, good=good)
    return REFUSED if not runs else WOULD_CHANGE if changes else DONE


def _done(
    report: Report,
    action: str,
    written: Sequence[str],
    verification: Verification | None,
    trials: Trials | None,
) -> Iterator[Line]:
    verdict, *detail = report.lines(VERBS[action])
    yield verdict._replace(role=Role.CAUTION) if action == "check" and report.changed else verdict
    if verification is not None:
        yield verification.proof
    if written and os.path.isfile(written[0]):
        growth = f", {report.growth}" if report.growth else ""
        yield Line(f"wrote {written[0]}  {size(os.path.getsize(written[0]))}{growth}")
        folder = os.path.dirname(written[0]) or os.curdir
        names = {path: os.path.relpath(path, folder) for path in written[1:]}
        if data := [f"{name} ({size(os.path.getsize(path))})" for path, name in names.items()]:
            yield Line(f"  data files: {shortened(data, 4, 'files')}")
    elif report.growth:
        yield Line(f"  {report.growth}")
    if trials is not None:
        yield from trials.lines()
    yield from detail
    if verification is not None:
        yield from verification.compared(brief=True)


def _not_written(outcome: Verification | Trials) -> Iterator[Line]:
    verdict, *detail = outcome.lines()
    yield verdict._replace(text=f"{verdict.text} Nothing was written.")
    yield from detail
