# SPDX-License-Identifier: Apache-2.0
"""Records conversions that were run in a given runtime, and their outcomes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from opshift.json_form import Form
from opshift.records import dataclass
from opshift.report import Report
from opshift.text import Line, Role, Shown, counted
from opshift.verify.verification import Verification

if TYPE_CHECKING:
    from opshift.page.sheet import Section

RUNS, OTHER_NUMBERS, NO_ANSWER = "runs", "other numbers", "no answer"
NOT_CONVERTED = "not converted"


@dataclass(frozen=True, slots=True)
class Trial:
    """One tried conversion: its differences from the first conversion, and its outcome."""

    opset: int
    """The opset of the result."""
    other_forms: tuple[str, ...]
    """The operators that were written in another form."""
    functions: bool
    """Whether functions of the model were kept if possible."""
    outcome: Annotated[str, RUNS, OTHER_NUMBERS, NO_ANSWER, NOT_CONVERTED]
    """The outcome of the conversion in the runtime."""
    detail: str = ""
    """The reason if the result does not run."""
    without: tuple[str, ...] = ()
    """The operators that were replaced by others."""

    def __str__(self) -> str:
        forms = f" with other forms of {', '.join(self.other_forms)}" if self.other_forms else ""
        words = f" with {', '.join(self.without)} decomposed" if self.without else ""
        functions = "" if self.functions else " without functions"
        detail = f": {self.detail}" if self.detail else ""
        return f"opset {self.opset}{forms}{words}{functions}: {self.outcome}{detail}"


@dataclass(frozen=True, slots=True, repr=False)
class Trials(Shown):
    """The conversions that were run in a runtime; only the last conversion can be successful.

    Attributes
    ----------
    target : str
        The runtime and its release.
    python : str
        The Python interpreter that imports the runtime.
    runs : bool
        Whether the last conversion runs there and computes the same as the source model.
    trials : tuple of Trial
        The conversions, in the order in which they were tried.
    notes : tuple of str
        Further remarks about the search.
    """

    target: str
    python: str
    runs: bool
    trials: tuple[Trial, ...]
    notes: tuple[str, ...] = ()

    def lines(self) -> Iterator[Line]:
        """Yields whether a result runs, and each conversion that was tried."""
        where = f"{self.target.replace('==', ' ')} of {self.python}"
        if self.runs:
            yield Line(f"Runs in {where} with equal results.", Role.GOOD)
        else:
            summary = f"None of {counted(len(self.trials), 'conversion')} runs in {where}"
            yield Line(f"{summary} with equal results.", Role.BAD)
        for trial in self.trials:
            yield Line(f"  tried {trial}", more=self.runs and len(self.trials) == 1)
        for note in self.notes:
            yield Line(f"  note: {note}")

    def section(self) -> Section:
        """Returns the trials as a section of an HTML page."""
        from opshift.page.page_parts import Notes
        from opshift.page.sheet import Section

        return Section("Runs in the runtime", (Notes(list(self.lines())),))


@dataclass(frozen=True, slots=True)
class CheckedReport(Form):
    """The report of a conversion whose result was compared with the source model.

    Printed by `opshift convert`.
    """

    KIND = "report"
    MERGED = ("report",)
    LEFT_OUT = ("verification", "trials")

    report: Report
    verification: Verification | None
    """The comparison of both models; only with `--verify` or `--runtime`."""
    trials: Trials | None
    """The conversions that the given runtime was asked to run; only with `--runtime`."""
