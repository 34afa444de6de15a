# SPDX-License-Identifier: Apache-2.0
"""The strategies of a conversion, such as inlining a function, and the choice of the best.

The default strategy (`STRAIGHT`) keeps every function, rewrites content for an older IR version
after the steps, and converts only through versions between source and target. The search tries
other strategies only in three cases: they may avoid a refusal or an approximation, a domain must be
replaced, or the result cannot have functions. Each strategy that may be better is run completely,
because only a finished result shows its number of nodes. A function is inlined only to avoid a
refusal or an approximation, never to write fewer nodes.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Collection, Iterable, Iterator
from dataclasses import field, replace
from typing import TYPE_CHECKING

from opshift import versions
from opshift.author.registry import Registry
from opshift.codes.refusals import Why
from opshift.convert.ir.features import Feature
from opshift.convert.verdict_edges import edge_of
from opshift.errors import AdapterBug, Refused, RefusedNode
from opshift.model.scope import FunctionId, Key
from opshift.opsets import schemas
from opshift.records import dataclass

if TYPE_CHECKING:
    from opshift.model.weights import Weights
    from opshift.protos import ModelProto
    from opshift.report import Report


@dataclass(frozen=True, slots=True)
class Strategy:
    """The choices of a conversion that its target leaves open, such as the functions to inline."""

    inlined: tuple[FunctionId, ...] = ()  # the functions that are inlined before the steps
    unsure: frozenset[FunctionId] = field(default=frozenset(), compare=False)  # may be kept
    early: frozenset[str] = frozenset()  # IR features that are lowered before the steps
    via_above: int = 0  # ai.onnx opset at which other domains are converted; 0: the model's opset
    via_below: int = 0  # opset to go down to before going to the target; 0: none
    reinfers_between: bool = False  # whether each opset in between indexes and infers anew
    leaves_first: bool = False  # whether domains are left before, not after, the steps upwards
    foreseen: frozenset[Key] = frozenset()  # operators of a result that the runtime cannot read
    opset: int = 0  # target opset at which a runtime has kernels; 0: the nearest opset

    @property
    def straight(self) -> bool:
        """Whether the strategy visits only versions between the source and the target."""
        return not self.via_above and not self.via_below

    @property
    def work(self) -> tuple[int, ...]:
        """The estimated work; of two strategies with equally good results, less work is better."""
        return (
            int(self.via_below > 0), len(self.inlined), int(self.leaves_first), len(self.foreseen),
            self.via_above, int(self.reinfers_between), len(self.early), int(self.opset > 0),
            -self.opset,
        )  # fmt: skip


STRAIGHT = Strategy()
MISSING_FACTS = {Why.NEEDS_CONSTANT, Why.NEEDS_TYPE, Why.NEEDS_RANK, Why.NEEDS_SHAPE}


@dataclass(frozen=True, slots=True)
class Reached:
    """The result of a strategy, with the number of inlined functions and of nodes."""

    strategy: Strategy
    skeleton: ModelProto
    weights: Weights
    report: Report
    lost: int
    nodes: int

    @property
    def cost(self) -> tuple[int, int, int, int, int, tuple[int, ...]]:
        """The cost. The first number that differs between two results decides.

        The order is: operators that the runtime lacks, operators that it may lack, approximations,
        lost functions, nodes, work.
        """
        answer, inexact = self.report.runtime, len(self.report.approximations)
        lacks, doubts = (len(answer.reasons), len(answer.unknown)) if answer else (0, 0)
        return lacks, doubts, inexact, self.lost, self.nodes, self.strategy.work


@dataclass(slots=True)
class Strategies:
    """A search over the strategies of a conversion; strategies with less work come first."""

    waiting: list[tuple[tuple[int, ...], int, Strategy]] = field(default_factory=list)
    known: set[Strategy] = field(default_factory=set)
    number: Iterator[int] = field(default_factory=itertools.count)
    best: Reached | None = None
    answer: Refused | None = None  # the refusal nearest to the target
    bug: AdapterBug | None = None  # the first adapter bug, if no strategy had a result before it
    seen: set[tuple[RefusedNode, ...]] = field(default_factory=set)

    def __iter__(self) -> Iterator[Strategy]:
        self._add(STRAIGHT)
        while self.waiting:
            strategy = heapq.heappop(self.waiting)[2]
            if not self._loses_more(strategy):
                yield strategy

    def reached(self, result: Reached, alternatives: Iterable[Strategy]) -> None:
        """Records a result, and adds the strategies that may give a better result.

        To limit the search, strategies that inline other functions are added only after a new best
        result. All functions that may have to be inlined are inlined together first, and only a
        result shows which of them can be kept: the sets of n functions would be 2 ** n searches.
        """
        better = self.best is None or result.cost < self.best.cost
        if better:
            self.best = result
        for strategy in (*_keeping_one(result.strategy), *alternatives):
            if better or strategy.inlined == result.strategy.inlined:
                self._add(strategy)

    def _loses_more(self, strategy: Strategy) -> bool:
        """Returns whether the best result is exact and inlines fewer functions than a strategy."""
        if self.best is None or self.best.report.approximations:
            return False
        return len(strategy.inlined) > self.best.lost

    def failed(self, bug: AdapterBug) -> None:
        """Records an adapter bug: as a note if a result exists, otherwise as an error.

        The error is raised after the search, because a later strategy may show that the model is
        invalid.
        """
        if self.best is None:
            self.bug = self.bug or bug
            return
        message = f"another conversion strategy was not compared, because of a bug: {bug}"
        report = replace(self.best.report, notes=(*self.best.report.notes, message))
        self.best = replace(self.best, report=report)

    def chosen(self) -> Reached:
        """Returns the result of the lowest cost, or raises the bug or the refusal."""
        if self.bug is not None:
            raise self.bug
        if self.best is not None:
            return self.best
        assert self.answer is not None
        raise self.answer

    def refused(
        self, strategy: Strategy, refused: Refused, alternatives: Iterable[Strategy]
    ) -> None:
        """Records a refusal, and adds other strategies unless an equal refusal was seen before."""
        plain = replace(strategy, inlined=(), leaves_first=False) == STRAIGHT
        if plain or refused.refusals not in self.seen:
            for alternative in alternatives:
                self._add(alternative)
        self.seen.add(refused.refusals)
        has_answer = self.answer
        direct = strategy.straight and not strategy.opset
        if has_answer is None or plain or (direct and _distance(refused) < _distance(has_answer)):
            self.answer = refused

    def _add(self, strategy: Strategy) -> None:
        if strategy not in self.known:
            self.known.add(strategy)
            heapq.heappush(self.waiting, (strategy.work, next(self.number), strategy))


def _distance(refused: Refused) -> int:
    """Returns how many versions a refused conversion is away from the target."""
    goal, near = refused.target, refused.nearest
    return sum(abs(goal[domain] - near[domain]) for domain in goal if domain in near)


def alternatives(
    strategy: Strategy,
    functions: Iterable[FunctionId],
    features: Iterable[Feature],
    via_above: int = 0,
    via_below: int = 0,
    *,
    reinfers_between: bool = False,
    leaves: bool = False,
    unread: Collection[Key] = (),
    unsure: Collection[FunctionId] = (),
    opsets: Collection[int] = (),
) -> Iterator[Strategy]:
    """Yields the strategies that differ from `strategy` in one choice.

    All `functions` are inlined together; of the `unsure` functions, some may be inlined.
    """
    if more := _deciding(unread, strategy.opset) - strategy.foreseen:
        yield replace(strategy, foreseen=strategy.foreseen | more)
    for opset in sorted(opsets, reverse=True):
        yield replace(strategy, opset=opset, foreseen=_deciding(strategy.foreseen, opset))
    early = frozenset(feature.says for feature in features if feature.sooner) - strategy.early
    if early:
        yield replace(strategy, early=strategy.early | early)
    if reinfers_between and not strategy.reinfers_between:
        yield replace(strategy, reinfers_between=True)
    if via_above > strategy.via_above:
        yield replace(strategy, via_above=via_above)
    if leaves and not strategy.leaves_first:
        yield replace(strategy, leaves_first=True)
    if via_below and not strategy.via_below:
        yield replace(strategy, via_below=via_below)
    yield from _inlining(strategy, functions, unsure)


def _deciding(unread: Collection[Key], opset: int) -> frozenset[Key]:
    """Returns the operators without those of ai.onnx if the opset of ai.onnx is already chosen."""
    return frozenset(key for key in unread if key[0] or not opset)


def _inlining(
    strategy: Strategy, functions: Iterable[FunctionId], unsure: Collection[FunctionId]
) -> Iterator[Strategy]:
    """Yields strategies that also inline `functions`, and none or all of those in `unsure`."""
    calls = sorted({*functions} - {*strategy.inlined})
    perhaps = sorted({*unsure} - {*strategy.inlined, *calls})
    for more in dict.fromkeys([(), tuple(perhaps)]):
        if calls or more:
            inlined = tuple(sorted((*strategy.inlined, *calls, *more)))  # in any order
            yield replace(strategy, inlined=inlined, unsure=strategy.unsure.union(more))


def _keeping_one(strategy: Strategy) -> Iterator[Strategy]:
    """Yields strategies that keep one of the functions whose inlining may be unnecessary."""
    for kept in strategy.inlined:
        if kept in strategy.unsure:
            inlined = tuple(function for function in strategy.inlined if function != kept)
            yield replace(strategy, inlined=inlined)


def opset_below(refused: Refused, opset: int) -> int:
    """Returns the newest opset of the wanted IR version if it is below `opset`, else 0."""
    wanted_ir = refused.target.get("IR")
    via_below = versions.last_of(wanted_ir).onnx if wanted_ir is not None else opset
    return via_below if via_below < opset else 0


def reinference_helps(refusals: Iterable[RefusedNode], came_at: int, prefix: str) -> bool:
    """Returns whether a refusal is due to an unknown type or constant at a node from a step.

    Inference of the whole model may find what inference of the new nodes did not find.
    """
    return any(
        not refusal.domain and refusal.boundary[0] != came_at
        for refusal in refusals
        if refusal.why in MISSING_FACTS and refusal.node.startswith(prefix)
    )


def opset_above(refusals: Iterable[RefusedNode], adapters: Registry, opset: int) -> int:
    """Returns a higher opset of ai.onnx from which a refused conversion may succeed, or 0."""
    opsets = [0]
    for refusal in refusals:
        start, to = refusal.boundary
        if refusal.domain:
            verdict = adapters.get(refusal.domain, refusal.op, start, to)
            opsets += [verdict.since] if verdict is not None and verdict.since > opset > 0 else []
        elif to < start and opset > 0:
            opsets.append(_replaced_at(refusal.op, start, adapters))
        elif to == start and opset > 0:
            opsets.append(_born_after(refusal.op, start))
    return max(opsets)


def descent_for(refusals: Iterable[RefusedNode], adapters: Registry) -> int:
    """Returns a lower opset at which other operators replace a refused operator, or 0."""
    opsets = [0]
    for refusal in refusals:
        start, to = refusal.boundary
        here = schemas.schema("", refusal.op, start) if not refusal.domain and to > start else None
        if here is None:
            continue
        down = edge_of(adapters, "", refusal.op, here.since, down=True)
        written = down.within("") if down is not None else ()
        if written and refusal.op not in written:
            opsets.append(here.since - 1)
    return max(opsets)


def _replaced_at(op: str, version: int, adapters: Registry) -> int:
    """Returns the opset above `version` at which other operators can replace `op`, or 0."""
    here = schemas.schema("", op, version)
    for schema in schemas.history("", op) if here is not None else ():
        up = edge_of(adapters, "", op, schema.since, down=False)
        replacements = {*up.within("")} - {op} if up is not None else set()
        if here is None or up is None or schema.since < here.since or not replacements:
            continue
        later = (
            schema_of_other.since
            for name in replacements
            for schema_of_other in schemas.history("", name)
        )
        return max((since for since in later if up.to < since <= up.to + 1), default=up.to)
    return 0


def _born_after(op: str, version: int) -> int:
    """Returns the first opset after `version` with a schema of `op`, or 0."""
    born = (schema.since for schema in schemas.history("", op))
    return next((since for since in born if since > version), 0)
