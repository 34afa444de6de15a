# SPDX-License-Identifier: Apache-2.0
"""Defines the report of a conversion, which can be pickled and written as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from opshift import terms
from opshift.json_form import SCHEMA_VERSION, Form, Versions, parsed
from opshift.page import Paged
from opshift.records import dataclass
from opshift.release import BUILD
from opshift.text import Line, Role, counted, show_versions

if TYPE_CHECKING:
    from opshift.page.sheet import Page, Section

YES, NO, NOT_KNOWN = "yes", "no", "not known"  # the possible answers whether a runtime runs a model
COMPATIBLE, REWRITE, IMPOSSIBLE = "compatible", "rewrite", "impossible"  # kinds of a change
KNOWN = {YES: True, NO: False, NOT_KNOWN: None}  # each answer as a JSON value
MOST_NAMED = 16  # the most written nodes of one rewriting that are listed in order without -v
MOST_KINDS = 12  # the most kinds of rewriting that are shown without -v
MOST_UNKNOWN = 3  # the most unknown facts about a runtime that are shown without -v


@dataclass(frozen=True, slots=True)
class Work(Form):
    """One kind of rewriting in one step, with the number of rewritten nodes."""

    PART = "work"
    OPTIONAL = ("why",)

    op: str
    """The operator that was rewritten."""
    gives: tuple[str, ...]
    """The operators that replace it, in order."""
    adapter: str
    """The function of the adapter, which another release may move."""
    count: int
    """The number of rewritten nodes."""
    id: str = ""
    """The name of the adapter, such as `ai.onnx.Reshape-14-13`, which never changes."""
    why: str = ""
    """A sentence: what the version changed, and which nodes the adapter writes."""

    @property
    def same(self) -> bool:
        """Returns whether the operator is the same and only inputs or attributes changed."""
        return self.gives == (self.op,)


@dataclass(frozen=True, slots=True)
class Site(Form):
    """One node of a newer operator that replaces a group of nodes with the same result."""

    PART = "site"

    op: str
    """The newer operator."""
    value: str
    """The output of the new node."""
    nodes: int
    """The number of nodes that it replaces."""
    rule: str
    """The function that declares the group of nodes, which another release may move."""


@dataclass(frozen=True, slots=True)
class StepReport(Form):
    """The rewritten and the unchanged nodes of one step."""

    PART = "step"

    domain: str
    """The domain whose version the step changes."""
    start: int
    """The version before the step."""
    to: int
    """The version after the step; equal to `start` if nodes are rewritten at the same version."""
    rewritten: tuple[Work, ...] = ()
    """Each kind of rewriting."""
    kept: Mapping[str, int] = field(default_factory=dict)
    """The number of nodes that were checked and stay unchanged, by operator."""

    @property
    def changed(self) -> bool:
        """Returns whether the step changed a version or rewrote a node."""
        return self.start != self.to or bool(self.rewritten)

    @property
    def where(self) -> str:
        """Returns the opsets of a step, as in `opset 12 -> 13`, or only `opset 13` if unchanged."""
        span = f"{self.start} -> {self.to}" if self.start != self.to else f"{self.to}"
        return f"{self.domain or 'opset'} {span}"


def answer_of(reasons: Collection[object], unknown: Collection[object]) -> str:
    """Returns "no" if there are reasons, "not known" if there are unknown facts, and else "yes"."""
    return NO if reasons else NOT_KNOWN if unknown else YES


@dataclass(frozen=True, slots=True)
class RuntimeAnswer:
    """The answer whether a runtime runs a model ("yes", "no" or "not known"), with the reasons."""

    target: str
    """The runtime and its release."""
    answer: Annotated[str, YES, NO, NOT_KNOWN]
    """Whether the runtime runs the model."""
    reasons: tuple[str, ...] = ()
    """The reasons for the answer "no"."""
    unknown: tuple[str, ...] = ()
    """The facts that are not known about the runtime."""

    @staticmethod
    def of(
        target: str, reasons: tuple[str, ...] = (), unknown: tuple[str, ...] = ()
    ) -> RuntimeAnswer:
        """Returns an answer with the reasons why the runtime fails, and with the unknown facts."""
        return RuntimeAnswer(target, answer_of(reasons, unknown), reasons, unknown)

    def lines(self) -> Iterator[Line]:
        """Yields that the runtime accepts the result, or the facts on which the answer depends."""
        if self.answer == YES:
            yield Line(f"  {self.target} accepts the result", Role.GOOD)
        for number, text in enumerate(self.unknown):
            yield Line(f"  not known: {text}", Role.CAUTION, more=number >= MOST_UNKNOWN)
        if (rest := len(self.unknown) - MOST_UNKNOWN) > 0:
            facts = counted(rest, "other fact is", "other facts are")
            yield Line(f"  ... and {facts} not known: {terms.all_of('runtime')}", Role.FAINT)


# Whether a runtime runs a model: "yes", "no" or "not known", in JSON true, false or null.
Runs: TypeAlias = Annotated[str, True, False, None]


@dataclass(frozen=True, slots=True)
class RuntimeRuns(Form):
    """Whether a runtime runs a model before and after a conversion."""

    target: str
    """The runtime and its release."""
    now: Runs
    """Whether the runtime runs the model without a conversion; null if this is not known."""
    after: Runs
    """Whether the runtime runs the model after a conversion; null if this is not known."""

    def as_dict(self) -> dict[str, Any]:
        answers = {"now": KNOWN[self.now], "after": KNOWN[self.after]}
        return {**Form.as_dict(self), **answers}


@dataclass(frozen=True, slots=True)
class Origin:
    """The build of opshift, the runtime and the adapters that produced a result."""

    opshift_version: str
    """The build of opshift."""
    runtime: str
    """The runtime for which the result was made; empty if the caller named none."""
    adapters: tuple[str, ...]
    """The adapters that rewrote nodes."""

    @staticmethod
    def from_dict(raw: Mapping[str, Any]) -> Origin:
        """Creates an origin from a dictionary with its fields."""
        adapters = tuple(map(str, raw["adapters"]))
        return Origin(str(raw["opshift_version"]), str(raw["runtime"]), adapters)


@dataclass(frozen=True, slots=True, repr=False)
class Report(Paged):
    """The changes of a conversion.

    Printed by `opshift convert`.

    Attributes
    ----------
    source : mapping of str to int
        The versions before the conversion, by domain.
    result : mapping of str to int
        The versions after the conversion, by domain.
    ir_before : int
        The IR version before the conversion.
    ir_after : int
        The IR version after the conversion.
    steps : tuple of StepReport
        The rewritten and the unchanged nodes of each step, with the adapters.
    approximations : tuple of str
        A sentence about each node whose result is not exactly equal; empty unless
        `allow_approximate` is given.
    assumptions : tuple of str
        A sentence about each node whose result relies on an assumption; empty unless `assume` is
        given.
    notes : tuple of str
        Further remarks, such as the content that requires the IR version.
    inlined : tuple of str
        The functions whose calls were replaced by the nodes of their bodies.
    repaired : bool
        Whether a defect was repaired that runtimes accept and onnx rejects.
    nodes_before : int or None
        The number of nodes in all graphs and functions before the conversion; None (null) if the
        nodes were not read.
    nodes_after : int or None
        The number of nodes in all graphs and functions after the conversion; None (null) if the
        nodes were not read.
    modernized : tuple of Site
        The nodes of newer operators that replaced groups of nodes; empty unless `modernize` is
        given.
    runtime : RuntimeAnswer or None
        Whether the named runtime runs the result; None (null) if the caller named none.
    opshift_version : str
        The build of opshift that made the result; empty if it is not known (up to 0.2.0).

    Examples
    --------
    >>> import opshift
    >>> report = opshift.convert("model.onnx", 13).report
    >>> report.changed, report.result[""], report.nodes_after
    (True, 13, 50)
    """

    KIND = "report"

    source: Versions
    result: Versions
    ir_before: int
    ir_after: int
    steps: tuple[StepReport, ...] = ()
    approximations: tuple[str, ...] = ()
    inlined: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    repaired: bool = False
    nodes_before: int | None = None
    nodes_after: int | None = None
    assumptions: tuple[str, ...] = ()
    modernized: tuple[Site, ...] = ()
    runtime: RuntimeAnswer | None = None
    opshift_version: str = BUILD

    @property
    def origin(self) -> Origin:
        """Returns the build, the runtime, and the adapters that rewrote nodes."""
        adapters = dict.fromkeys(work.id for step in self.steps for work in step.rewritten)
        runtime = self.runtime.target if self.runtime else ""
        return Origin(self.opshift_version, runtime, tuple(adapters))

    @property
    def changed(self) -> bool:
        """Returns whether the result differs from the source model."""
        versions = dict(self.source) != dict(self.result) or self.ir_before != self.ir_after
        return versions or self.repaired or any(step.changed for step in self.steps)

    @staticmethod
    def from_json(text: str) -> Report:
        """Reads a report from the text that `to_json` returned."""
        raw = parsed(text)
        check_schema(raw, "report")
        steps = tuple(
            StepReport(
                step["domain"], step["start"], step["to"],
                tuple(Work(**{**w, "gives": tuple(w["gives"])}) for w in step["rewritten"]),
                step["kept"],
            )
            for step in raw["steps"]
        )  # fmt: skip
        return Report(
            raw["source"], raw["result"], raw["ir_before"], raw["ir_after"], steps,
            tuple(raw["approximations"]), tuple(raw["inlined"]), tuple(raw["notes"]),
            raw.get("repaired", False), raw.get("nodes_before"), raw.get("nodes_after"),
            tuple(raw.get("assumptions", ())),
            tuple(Site(**site) for site in raw.get("modernized", ())),
            _runtime_answer(raw.get("runtime")), raw.get("opshift_version", ""),
        )  # fmt: skip

    @property
    def way(self) -> str:
        """Returns the changed versions, such as `opset 12 -> 13, IR 7 -> 8`."""
        moved = moves(self.source, self.result)
        if self.ir_before != self.ir_after:
            moved.append(f"IR {self.ir_before} -> {self.ir_after}")
        return ", ".join(moved)

    @property
    def growth(self) -> str:
        """Returns the change of the node count, such as `125 -> 271 nodes (+146, mostly Reshape)`.

        The text names an operator only if more than half of the added nodes have this operator. The
        text is empty if the nodes were not counted.
        """
        before, after = self.nodes_before, self.nodes_after
        if before is None or after is None:
            return ""
        done = sum(work.count for step in self.steps for work in step.rewritten)
        if before == after:
            return counted(after, "node") + (f" ({done:,} rewritten)" if done else "")
        written: Counter[str] = Counter()
        for step in self.steps:
            for work in step.rewritten:
                written.update({op: work.count * n for op, n in Counter(work.gives).items()})
                written[work.op] -= work.count
        op, most = max(written.items(), key=lambda pair: (pair[1], pair[0]), default=("", 0))
        added = sum(number for number in written.values() if number > 0)
        mostly = f", mostly {op}" if after > before and 2 * most > added else ""
        return f"{before:,} -> {after:,} nodes ({after - before:+,}{mostly})"

    def lines(self, verb: str = "Converted") -> Iterator[Line]:
        """Yields the verdict, the assumptions of the result, and the rewritten operators."""
        if self.runtime is not None and self.runtime.reasons:  # the caller keeps such results
            first, *rest = self.runtime.reasons
            more = f" (and {len(rest)} more)" if rest else ""
            yield Line(f"{verb}, but {self.runtime.target} cannot run it: {first}{more}", Role.BAD)
        versions = show_versions(self.result)
        if self.changed:
            yield Line(f"{verb}: {self.way or f'{versions} as before'}.", Role.GOOD)
        else:
            yield Line(f"Nothing to do: the model has {versions}.", Role.GOOD)
        yield from self.detail()

    def page(self) -> Page:
        """Returns the page: the verdict, the versions, the rewritten operators, the assumptions."""
        from opshift.page.sheet import Page, facts_of

        verdict = next(self.lines())
        versions = [
            (domain or "Opset", self.source.get(domain, "none"), self.result.get(domain, "none"))
            for domain in sorted({*self.source, *self.result})
        ]
        facts = facts_of([*versions, ("IR version", self.ir_before, self.ir_after)])
        if self.nodes_before is not None and self.nodes_after is not None:
            facts += facts_of([("Nodes", f"{self.nodes_before:,}", f"{self.nodes_after:,}")])
        caution = cautions(self.runtime, self.assumptions, self.approximations)
        notes = [f"The function {text} was inlined at its calls." for text in self.inlined]
        notes += [line.text.strip() for line in modernized(self.modernized)]
        notes += self.notes
        return Page("conversion", verdict, "", facts, sections_of(self.steps, caution, notes))

    def detail(self) -> Iterator[Line]:
        """Yields all lines of the report except the verdict."""
        if self.runtime is not None:
            yield from self.runtime.lines()
        for text in self.assumptions:
            yield Line(f"  assumed: {text}", Role.CAUTION)
        for text in self.approximations:
            yield Line(f"  approximate: {text}", Role.CAUTION)
        yield from rewritings(self.steps)
        for step in self.steps:
            if step.kept:
                unchanged = ", ".join(f"{op} x{count}" for op, count in step.kept.items())
                yield Line(f"  {step.where}  unchanged: {unchanged}", Role.FAINT, more=True)
        yield from modernized(self.modernized)
        for text in self.inlined:
            yield Line(f"  inlined: the function {text}, at each of its calls")
        for text in self.notes:
            yield Line(f"  note: {text}")


def moves(before: Mapping[str, int], after: Mapping[str, int]) -> list[str]:
    """Returns the changed imports, such as `opset 12 -> 13` and `ai.onnx.ml 2 -> removed`."""
    texts = []
    for domain in sorted({*before, *after}):
        old, new = before.get(domain), after.get(domain)
        if old != new:
            texts.append(f"{domain or 'opset'} {old or '-'} -> {new or 'removed'}")
    return texts


def rewritings(steps: Iterable[StepReport]) -> Iterator[Line]:
    """Yields the lines for the rewritings of each step; without -v only for the first few."""
    pairs = [(step, work) for step in steps for work in step.rewritten]
    for number, (step, work) in enumerate(pairs):
        hidden = number >= MOST_KINDS
        for line in _rewriting(step, work):
            yield line._replace(more=line.more or hidden)
        yield Line(f"    by {work.id} ({work.adapter})", Role.FAINT, more=True)
    if len(pairs) > MOST_KINDS:
        rest = pairs[MOST_KINDS:]
        nodes = counted(sum(work.count for _, work in rest), "node")
        more = f"{len(rest)} more rewritings of {nodes}: {terms.all_of('steps')}"
        yield Line(f"  ... and {more}", Role.FAINT)


def _rewriting(step: StepReport, work: Work) -> Iterator[Line]:
    """Yields the lines for one rewriting, such as `opset 12 -> 11  LessOrEqual x1: Greater Not`.

    A long list of written nodes is replaced by the count of each operator. If the operator stays,
    the adapter's sentence says what changed.
    """
    head = f"  {step.where}  {work.op} x{work.count}: "
    if work.same:
        yield Line(head + (work.why or "only inputs or attributes change"))
    elif len(work.gives) <= MOST_NAMED:
        yield Line(head + " ".join(work.gives))
        yield from _reason(work)
    else:
        counts = ", ".join(f"{op} x{count}" for op, count in Counter(work.gives).most_common())
        yield Line(f"{head}{counted(len(work.gives), 'node')} ({counts})")
        yield from _reason(work)
        yield Line(f"    in their order: {' '.join(work.gives)}", Role.FAINT, more=True)


def _reason(work: Work) -> Iterator[Line]:
    if work.why:
        yield Line(f"    {work.why}", Role.FAINT, more=True)


def cautions(
    runtime: RuntimeAnswer | None, assumptions: Iterable[str], approximations: Iterable[str]
) -> list[Line]:
    """Returns a line for each open question, assumption and approximation of an outcome."""
    unknown = runtime.unknown if runtime is not None else ()
    texts = {"Not known": unknown, "Assumed": assumptions, "Approximate": approximations}
    return [Line(f"{word}: {text}", Role.CAUTION) for word in texts for text in texts[word]]


def sections_of(
    steps: Iterable[StepReport], caution: Sequence[Line], notes: Sequence[str]
) -> tuple[Section, ...]:
    """Returns the sections for the rewritten operators, the assumptions, and the notes."""
    from opshift.page.markup import repeated
    from opshift.page.page_parts import Block, Notes, Table
    from opshift.page.sheet import Section

    steps = tuple(steps)
    rows = [
        (
            work.op,
            f"{work.count:,}",
            step.where.replace("->", "→"),
            repeated(work.gives),
            work.why,
        )
        for step in steps
        for work in step.rewritten
    ]
    header = ("Operator", "Nodes", "At", "Written as", "What changed")
    unchanged: Counter[str] = Counter()
    for step in steps:
        unchanged |= Counter(step.kept)  # several steps may have checked a node
    blocks: list[Block] = [Table(header, rows, frozenset((1,)))] if rows else []
    if unchanged:
        listed = repeated(unchanged.elements())
        blocks.append(Notes((Line(f"Checked and left unchanged: {listed}.", Role.FAINT),)))
    return (
        Section("What changes for each operator", blocks),
        Section("Assumptions and approximations", [Notes(caution)] if caution else ()),
        Section("Notes", [Notes([Line(text) for text in notes])] if notes else ()),
    )


def modernized(sites: Iterable[Site]) -> Iterator[Line]:
    """Yields the number of written nodes of each newer operator, and their outputs."""
    by_op: dict[str, list[Site]] = {}
    for site in sites:
        by_op.setdefault(site.op, []).append(site)
    for op, sites_of_op in sorted(by_op.items()):
        nodes = counted(sum(site.nodes for site in sites_of_op), "node")
        yield Line(f"  modernized: {op} x{len(sites_of_op)} in place of {nodes}")
        for site in sites_of_op:
            yield Line(f"    {site.value!r} by {site.rule}", Role.FAINT, more=True)


def check_schema(raw: Mapping[str, Any], kind: str) -> None:
    if raw.get("kind") != kind or raw.get("schema_version") != SCHEMA_VERSION:
        raise ValueError(f"not a {kind} of schema version {SCHEMA_VERSION}")


def _runtime_answer(raw: Mapping[str, Any] | None) -> RuntimeAnswer | None:
    if raw is None:
        return None
    return RuntimeAnswer(raw["target"], raw["answer"], tuple(raw["reasons"]), tuple(raw["unknown"]))
