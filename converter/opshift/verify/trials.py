# SPDX-License-Identifier: Apache-2.0
"""The outcome of running conversions in a given runtime."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from opshift.records import dataclass
from opshift.text import Line, Role, Shown, counted

if TYPE_CHECKING:
    from opshift.page.sheet import Section

RUNS, OTHER_NUMBERS, NO_ANSWER = "runs", "other numbers", "no answer"
NOT_CONVERTED = "not converted"


@dataclass(frozen=True, slots=True)
class Trial:
    """One conversion that was tried: how it differs from the first one, and the outcome."""

    opset: int
    other_forms: tuple[str, ...]
    functions: bool
    outcome: str
    detail: str = ""
    without: tuple[str, ...] = ()

    def __str__(self) -> str:
        forms = f" with other forms of {', '.join(self.other_forms)}" if self.other_forms else ""
        words = f" with {', '.join(self.without)} in other words" if self.without else ""
        functions = "" if self.functions else " without functions"
        detail = f": {self.detail}" if self.detail else ""
        return f"opset {self.opset}{forms}{words}{functions}: {self.outcome}{detail}"


@dataclass(frozen=True, slots=True, repr=False)
class Trials(Shown):
    """The conversions that were run in a runtime, the last of which may be the result.

    Attributes
    ----------
    target, python : str
        The runtime, and the Python interpreter that it belongs to.
    runs : bool
        Whether the last one runs there and computes the same as the source model.
    trials : tuple of Trial
        Each conversion in the order in which it was tried.
    notes : tuple of str
        What else is worth knowing.
    """

    target: str
    python: str
    runs: bool
    trials: tuple[Trial, ...]
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The JSON form, a part of a report."""
        return dataclasses.asdict(self)

    def lines(self) -> Iterator[Line]:
        """Whether a result runs, and each conversion that was tried."""
        where = f"{self.target.replace('==', ' ')} of {self.python}"
        if self.runs:
            yield Line(f"Runs in {where} with equal results.", Role.GOOD)
        else:
            told = f"None of {counted(len(self.trials), 'conversion')} runs in {where}"
            yield Line(f"{told} with equal results.", Role.BAD)
        for trial in self.trials:
            yield Line(f"  tried {trial}", more=self.runs and len(self.trials) == 1)
        for note in self.notes:
            yield Line(f"  note: {note}")

    def section(self) -> Section:
        """The trials as a section of a page."""
        from opshift.page.page_parts import Notes
        from opshift.page.sheet import Section

        return Section("Runs in the runtime", (Notes(list(self.lines())),))
