# SPDX-License-Identifier: Apache-2.0
"""Summarizes the releases that run a model, in one line for each runtime."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from opshift.records import dataclass
from opshift.report import RuntimeRuns
from opshift.text import Line, Role, table

NEVER = "no"


@dataclass(frozen=True, slots=True)
class Fit(RuntimeRuns):
    """Whether one release of a runtime runs a model before and after a conversion."""

    reasons: tuple[str, ...]
    """The reasons why the release does not run the model without a conversion."""
    blockers: tuple[str, ...]
    """The reasons why the release does not run the converted model."""
    unknown: tuple[str, ...] = ()
    """The facts that are not known about the release."""
    remarks: tuple[str, ...] = ()
    """The assumptions that led from the request of the caller to this release."""

    @property
    def first(self) -> str:
        """The first reason why the release does not run the model, now or after a conversion."""
        when, reasons, word = "now", self.reasons, "reason"
        if self.blockers:
            when, reasons = "after conversion", self.blockers
        elif not reasons and self.unknown:
            when, reasons, word = "not known", self.unknown, "unknown fact"
        rest = len(reasons) - 1
        more = f"; {rest} more {word}{'s' if rest > 1 else ''}" if rest > 0 else ""
        return f"{when}: {reasons[0]}{more}" if reasons else ""


def lines(fits: Sequence[Fit]) -> Iterator[Line]:
    """Yields a summary, and for each runtime the releases that run the model now and afterwards."""
    by_runtime: dict[str, list[Fit]] = {}
    for fit in fits:
        by_runtime.setdefault(fit.target.partition("==")[0], []).append(fit)
    yield _verdict(by_runtime)
    rows = [
        (
            name,
            _cell(fits_of_runtime, "now"),
            _cell(fits_of_runtime, "after"),
            _why(fits_of_runtime),
        )
        for name, fits_of_runtime in by_runtime.items()
    ]
    yield from table(("runtime", "runs now", "after conversion", "reason"), rows)


def _verdict(by_runtime: dict[str, list[Fit]]) -> Line:
    """Returns the runtimes in which the model certainly runs."""
    parts = []
    for side, words in (("now", "Runs now in"), ("after", "after a conversion in")):
        sure = [
            f"{name} {_releases(fits, side, 'yes')}".rstrip()
            for name, fits in by_runtime.items()
            if any(getattr(fit, side) == "yes" for fit in fits)
        ]
        parts.append(f"{words} {', '.join(sure) or 'none of the measured runtimes'}")
    return Line(f"{'; '.join(parts)}.", Role.GOOD)


def _cell(fits: Sequence[Fit], side: str) -> str:
    """Returns the releases that run the model, and the releases whose answer is not known."""
    answers = []
    for answer, form in (("yes", "{}"), ("not known", "not known ({})")):
        if any(getattr(fit, side) == answer for fit in fits):
            shown = _releases(fits, side, answer)
            answers.append(form.format(shown) if shown else answer)
    return ", ".join(answers) or NEVER


def _releases(fits: Sequence[Fit], side: str, answer: str) -> str:
    """Returns the releases with an answer as text, such as `1.18+` or `1.2..1.4, 1.8+`."""
    runs: list[list[int]] = []
    for at, fit in enumerate(fits):
        if getattr(fit, side) != answer:
            continue
        if runs and runs[-1][-1] == at - 1:
            runs[-1].append(at)
        else:
            runs.append([at])
    shown = []
    for run in runs:
        first, last = _ends(fits[run[0]])[0], _ends(fits[run[-1]])[1]
        if not first:
            continue
        shown.append(f"{first}+" if run[-1] == len(fits) - 1 else _range(first, last))
    return ", ".join(shown)


def _range(first: str, last: str) -> str:
    return first if first == last else f"{first}..{last}"


def _ends(fit: Fit) -> tuple[str, str]:
    """Returns the first and the last release of a range."""
    listed = fit.target.partition("==")[2].split(", ")
    return listed[0].partition("..")[0], listed[-1].rpartition("..")[2]


def _why(fits: Sequence[Fit]) -> str:
    """Returns why the newest release does not run the converted model, or ""."""
    last = fits[-1]
    return "" if last.after == "yes" else last.first
