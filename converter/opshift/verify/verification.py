# SPDX-License-Identifier: Apache-2.0
"""Defines the result of a verification, which is shown as a table and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from opshift.json_form import parsed
from opshift.page import Paged
from opshift.records import dataclass
from opshift.report import check_schema
from opshift.text import Line, Role, Shown, table

if TYPE_CHECKING:
    from opshift.page.sheet import Page, Section

EQUAL, DIFFERENT, LIKE, UNKNOWN = "equal", "different", "type and shape only", "no answer"

_ROLES = {EQUAL: Role.GOOD, LIKE: Role.CAUTION, UNKNOWN: Role.CAUTION, DIFFERENT: Role.BAD}


@dataclass(frozen=True, slots=True)
class Side:
    """One model, the engine that ran it, and the reason for the engine."""

    model: str
    """The model."""
    engine: str
    """The engine that ran the model."""
    why: str
    """The reason for the choice of the engine."""


@dataclass(frozen=True, slots=True)
class Row:
    """The comparison of one output for one set of inputs; `detail` describes a difference.

    `distance` is the largest difference of two numbers at equal positions; None without numbers.
    """

    OPTIONAL = ("distance",)

    inputs: str
    """The set of inputs."""
    output: str
    """The output."""
    outcome: Annotated[str, EQUAL, DIFFERENT, LIKE, UNKNOWN]
    """The outcome of the comparison."""
    detail: str = ""
    """A description of the difference."""
    distance: float | None = None
    """The largest difference of two numbers at one place; null without numbers."""

    @property
    def difference(self) -> str:
        """The difference as a sentence, or the largest difference if it is within the tolerance."""
        return self.detail or ("" if self.distance is None else f"{self.distance:.2g}")


@dataclass(frozen=True, slots=True, repr=False)
class Cause(Shown):
    """The first value that differs, the node that computes it, and the adapter of the node."""

    inputs: str
    """The set of inputs."""
    value: str
    """The value."""
    before: str
    """The node of the first model that computes the value."""
    after: str
    """The node of the second model that computes the value."""
    adapters: tuple[str, ...]
    """The adapters that wrote the node of the second model."""
    detail: str
    """A description of the difference."""
    saved: str = ""
    """The folder with the reduced models; empty if they were not saved."""

    def lines(self) -> Iterator[Line]:
        """Yields the value, the nodes that compute it, and a command that shows the difference."""
        who = ", ".join(self.adapters) or "no adapter: the conversion did not change the node"
        yield Line(f"first difference: {self.value!r}: {self.detail}", Role.BAD)
        yield Line(f"  computed by {self.before}, now {self.after}")
        yield Line(f"  converted by {who}")
        if self.saved:
            yield Line(f"  reproduce: opshift verify {self.saved}")


@dataclass(frozen=True, slots=True, repr=False)
class Verification(Paged):
    """Whether two models have equal results for equal inputs.

    The object is true only if all results are equal. Printed by `opshift verify`.
    """

    KIND = "verification"
    ALSO = ("equal", "different")

    sides: tuple[Side, Side]
    """The two models."""
    seed: int
    """The seed of the generated inputs."""
    rows: tuple[Row, ...]
    """The comparison of each output for each set of inputs."""
    notes: tuple[str, ...] = ()
    """Further remarks, such as outputs that are random."""
    cause: Cause | None = None
    """The first value that differs; null if no value differs or the first one was not found."""

    @property
    def equal(self) -> bool:
        """Whether every output was compared and all are equal."""
        return bool(self.rows) and all(row.outcome in (EQUAL, LIKE) for row in self.rows)

    def __bool__(self) -> bool:
        return self.equal

    @property
    def different(self) -> bool:
        """Whether an output was compared and differs; false if a model gave no result."""
        return any(row.outcome == DIFFERENT for row in self.rows)

    @property
    def proof(self) -> Line:
        """The verdict as a line: whether the models are equal, and the largest difference."""
        if self.different:
            return Line("Different: the models do not compute the same results.", Role.BAD)
        if not self.equal:
            return Line("Not shown to be equal: a model gave no result.", Role.BAD)
        if all(row.outcome == LIKE for row in self.rows):
            return Line("Equal in type and shape: no number was compared.", Role.CAUTION)
        measured = [row for row in self.rows if row.distance is not None]
        largest = max(measured, key=lambda row: row.distance or 0.0, default=None)
        text = "Equal: both models compute the same results."
        if largest is not None and largest.distance:
            text += f" The largest difference is {largest.distance:.2g}, in {largest.output!r}."
        elif largest is not None:
            text += " No number differs."
        return Line(text, Role.GOOD)

    @staticmethod
    def from_json(text: str) -> Verification:
        raw = parsed(text)
        check_schema(raw, "verification")
        first, second = (Side(**side) for side in raw["sides"])
        cause = raw["cause"]
        if cause is not None:
            cause = Cause(**{**cause, "adapters": tuple(cause["adapters"])})
        rows = tuple(Row(**row) for row in raw["rows"])
        return Verification((first, second), raw["seed"], rows, tuple(raw["notes"]), cause)

    def page(self) -> Page:
        """Returns a page with the verdict, the engines, and every comparison."""
        from opshift.page.sheet import Page

        counts = Counter(row.outcome for row in self.rows)
        engines = dict.fromkeys(side.engine for side in self.sides)
        facts = [("Computed by", ", ".join(engines))]
        facts += [(outcome.capitalize(), f"{count:,}") for outcome, count in counts.items()]
        return Page("verification", next(self.lines()), "", tuple(facts), (self.section(),))

    def section(self) -> Section:
        """Returns the comparison of the outputs as a section of an HTML page."""
        from opshift.page.page_parts import Notes, Table
        from opshift.page.sheet import Section

        lines = list(self.cause.lines() if self.cause else ())
        lines += [
            Line(f"{letter}: {side.model} on {side.engine} ({side.why})")
            for letter, side in zip("AB", self.sides, strict=True)
        ]
        lines += [Line(f"Seed of the inputs: {self.seed}"), *map(Line, self.notes)]
        rows = [
            (row.inputs, row.output, Line(row.outcome, _ROLES[row.outcome]), row.difference)
            for row in self.rows
        ]
        header = ("Inputs", "Output", "Outcome", "Difference")
        return Section("Comparison of the numbers", (Notes(lines), Table(header, rows)))

    def lines(self) -> Iterator[Line]:
        """Yields the verdict, the first difference, and every comparison."""
        yield self.proof
        if self.cause is not None:
            yield from self.cause.lines()
        yield from self.compared()

    def compared(self, *, brief: bool = False) -> Iterator[Line]:
        """Yields the two models, each comparison (in brief form only with -v), and the notes."""
        for letter, side in zip("AB", self.sides, strict=True):
            yield Line(f"  {letter}: {side.model} on {side.engine} ({side.why})")
        yield Line(f"  seed of the inputs: {self.seed}", Role.FAINT, more=True)
        rows = ((row.inputs, row.output, row.outcome, row.detail) for row in self.rows)
        for line in table(("inputs", "output", "outcome", ""), rows, indent="  "):
            yield line._replace(more=brief)
        for note in self.notes:
            yield Line(f"  note: {note}")
