# SPDX-License-Identifier: Apache-2.0
"""The plan of a conversion, as data, text and page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from opshift.errors import RefusedNode, blocked, blockers, blocking
from opshift.json_form import Form, Versions
from opshift.page import Paged
from opshift.records import dataclass
from opshift.report import (
    COMPATIBLE,
    RuntimeAnswer,
    Site,
    StepReport,
    cautions,
    modernized,
    moves,
    rewritings,
    sections_of,
)
from opshift.text import Line, Role, counted, qualified, show_versions, table

if TYPE_CHECKING:
    from opshift.page.sheet import Page


OUTGROWN = (
    "Outside this range of {} the model would become too large; opshift tried no other version."
)


@dataclass(frozen=True, slots=True)
class Hop(Form):
    """A change of an operator between two versions, or its rewrite at the target version."""

    PART = "hop"

    op: str
    """The operator before the change; another one if an earlier change replaced the first."""
    start: int
    """The version before the change."""
    to: int
    """The version after the change; equal to `start` for a rewrite at the same version."""
    verdict: str
    """The kind of change: `compatible`, `rewrite`, `decomposition`, `approximate` or `impossible`;
    `form` for a rewrite at the same version."""
    emits: tuple[str, ...]
    """The operators that may be written."""
    summary: str
    """A sentence about the change."""

    @property
    def where(self) -> str:
        """The versions as text, such as `12->13`, or `at 13, another` before the word `form`."""
        return f"{self.start}->{self.to}" if self.start != self.to else f"at {self.to}, another"


@dataclass(frozen=True, slots=True)
class Path(Form):
    """The changes of an operator up to the target; `dead_end` says what may block the operator."""

    PART = "path"

    domain: str
    """The domain of the operator."""
    op: str
    """The operator."""
    count: int
    """The number of nodes with this operator."""
    hops: tuple[Hop, ...]
    """The changes of the operator, in order."""
    dead_end: str | None
    """The reason why the operator may not reach the target; null if it reaches the target."""


@dataclass(frozen=True, slots=True, repr=False)
class Plan(Paged):
    """The steps of a conversion, or the nodes that block it and the nearest versions.

    The object is true only if the conversion is possible. Printed by `opshift plan`.

    Attributes
    ----------
    source : mapping of str to int
        The versions of the model, by domain.
    target : mapping of str to int
        The versions that the caller asks for, by domain.
    paths : tuple of Path
        For each operator, its change in each step, and the reason if it cannot be converted.
    steps : tuple of StepReport
        The rewritten and the unchanged nodes of each step, up to the last possible step.
    refusals : tuple of RefusedNode
        Every node that blocks the conversion, with the reason and the action to take.
    nearest : mapping of str to int
        The versions nearest to the target that the model reaches, by domain.
    lowest : mapping of str to int
        The lowest versions that the model can have, by domain; empty with `header_only`.
    highest : mapping of str to int
        The highest versions that the model can have, by domain; empty with `header_only`.
    approximations : tuple of str
        A sentence about each node whose result is not exactly equal.
    assumptions : tuple of str
        A sentence about each node whose result relies on an assumption.
    notes : tuple of str
        Further remarks about the result.
    header_only : bool
        Whether no operator changes, so that no other versions were tried.
    outgrown : tuple of str
        The domains of which not all versions were tried, because the model became too large.
    modernized : tuple of Site
        The nodes of newer operators that would replace groups of nodes.
    ir_before : int
        The IR version of the model.
    ir_after : int or None
        The IR version of the result; None (null) if a node blocks the conversion.
    runtime : RuntimeAnswer or None
        Whether the named runtime runs the result; None (null) if none is named.

    Examples
    --------
    >>> import opshift
    >>> found = opshift.plan("model.onnx", 1)
    >>> found.possible, found.nearest[""], found.refusals[0].why.name
    (False, 5, 'NEEDS_CONSTANT')
    """

    KIND = "plan"
    ALSO = ("possible",)

    source: Versions
    target: Versions
    paths: tuple[Path, ...]
    steps: tuple[StepReport, ...]
    refusals: tuple[RefusedNode, ...]
    nearest: Versions
    lowest: Versions
    highest: Versions
    approximations: tuple[str, ...]
    ir_before: int
    ir_after: int | None
    header_only: bool = False
    outgrown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    modernized: tuple[Site, ...] = ()
    runtime: RuntimeAnswer | None = None

    @property
    def possible(self) -> bool:
        """Whether no node blocks the conversion to the target."""
        return not self.refusals

    def __bool__(self) -> bool:
        return self.possible

    def lines(self) -> Iterator[Line]:
        """Yields text: whether the plan is possible, blockers, changes, and reachable versions."""
        yield self._verdict()
        if not self.possible:
            yield from blockers(self.refusals)
        if self.runtime is not None:
            yield from self.runtime.lines()
        for text in self.assumptions:
            yield Line(f"  assumed: {text}", Role.CAUTION)
        for text in self.approximations:
            yield Line(f"  approximate: {text}", Role.CAUTION)
        yield from rewritings(self.steps)
        yield from self._operators()
        yield from modernized(self.modernized)
        for text in self.notes:
            yield Line(f"  note: {text}", Role.CAUTION)
        if not self.header_only:
            for domain in sorted({*self.lowest, *self.highest}):
                low, high = self.lowest.get(domain), self.highest.get(domain)
                yield Line(f"Reachable: {domain or 'opset'} {low} to {high}.")
        for domain in self.outgrown:
            yield Line(OUTGROWN.format(domain or "ai.onnx"))

    def _operators(self) -> Iterator[Line]:
        """Yields the number of unchanged nodes; with -v also the path of each operator."""
        shown = self._changes()
        rows = [_row(path, hops) for path, hops in shown if hops or path.dead_end]
        for line in table(("operator", "nodes", "path"), rows, indent="  ") if rows else ():
            yield line._replace(more=True)
        same = [path for path, hops in shown if not hops and not path.dead_end]
        if same:
            count = sum(path.count for path in same)
            yield Line(f"  unchanged: {counted(count, 'node')} of {counted(len(same), 'operator')}")
        for path in same:
            way = f": {_row(path, path.hops)[2]}" if path.hops else ""
            yield Line(f"    {_name(path)} x{path.count}{way}", Role.FAINT, more=True)

    def _changes(self) -> list[tuple[Path, list[Hop]]]:
        """Returns the changes of each operator, without steps that change no node."""
        unchanged, done = set[tuple[str, str, int, int]](), set[tuple[str, str, int, int]]()
        for step in self.steps:
            unchanged |= {(step.domain, op, step.start, step.to) for op in step.kept}
            done |= {(step.domain, work.op, step.start, step.to) for work in step.rewritten}
        idle = unchanged - done

        def changes(path: Path, hop: Hop) -> bool:
            at = (path.domain, hop.op, hop.start, hop.to)
            return hop.verdict != COMPATIBLE and at not in idle

        return [(path, [hop for hop in path.hops if changes(path, hop)]) for path in self.paths]

    def page(self) -> Page:
        """Returns a page: whether the plan is possible, blockers, changes, reachable versions."""
        from opshift.page.page_parts import Table
        from opshift.page.sheet import Page, Section, facts_of

        source, target = self.source, {**self.source, **self.target}
        facts = facts_of(
            (domain or "Opset", source.get(domain, "none"), to)
            for domain, to in sorted(target.items())
        )
        if self.ir_after is not None:
            facts += facts_of([("IR version", self.ir_before, self.ir_after)])
        facts += tuple(
            (f"Reachable {domain or 'opset'}", f"{self.lowest[domain]} to {self.highest[domain]}")
            for domain in sorted(self.lowest.keys() & self.highest.keys())
        )
        caution = cautions(self.runtime, self.assumptions, self.approximations)
        notes = [*self.notes, *(OUTGROWN.format(domain or "ai.onnx") for domain in self.outgrown)]
        changes, *more = sections_of(self.steps, caution, notes)
        ways = [_row(path, hops) for path, hops in self._changes() if hops or path.dead_end]
        rows = [tuple(cell.replace("->", " → ") for cell in row) for row in ways]
        table = Table(("Operator", "Nodes", "Way to the target"), rows, frozenset((1,)))
        way = Section("The changes of each operator", (table,) if rows else ())
        sections = (blocking(self.refusals), changes) if self.refusals else (changes,)
        return Page("plan", self._verdict(), "", facts, (*sections, way, *more))

    def _verdict(self) -> Line:
        if self.possible:
            same = " No operator changes." if self.header_only else ""
            moved = [*moves(self.source, self.nearest), *self._ir_moves()]
            present = f"the model has {show_versions(self.source)}"
            return Line(f"Possible: {', '.join(moved) or present}.{same}", Role.GOOD)
        ir = next((refusal.boundary[1] for refusal in self.refusals if refusal.op == "IR"), None)
        target = {**self.target, **({"IR": ir} if ir is not None else {})}
        sentence = blocked(self.refusals, self.nearest, target)
        goal = f": {show_versions(target)}" if target else ""
        return Line(f"Not possible{goal}. {sentence}", Role.BAD)

    def _ir_moves(self) -> Iterator[str]:
        """Yields a text such as `IR 10 -> 8` if the IR version changes."""
        if self.ir_after is not None and self.ir_before != self.ir_after:
            yield f"IR {self.ir_before} -> {self.ir_after}"


def _name(path: Path) -> str:
    return qualified(path.domain, path.op)


def _row(path: Path, hops: Iterable[Hop]) -> tuple[str, str, str]:
    texts = [
        f"{hop.where} {hop.verdict}" + (f" ({hop.op})" if hop.op != path.op else "") for hop in hops
    ]
    if path.dead_end:
        texts.append(f"no path: {path.dead_end}")
    return _name(path), str(path.count), ", ".join(texts)
