# SPDX-License-Identifier: Apache-2.0
"""The alternative ways of a conversion, and the choice of the cheapest.

The straight way keeps every function, writes older forms of content after the steps, and visits no
other version. It is tried first and costs nothing more. An alternative is planned only in three
cases: it may avoid a refusal or an approximation, a domain is left, or the result cannot hold
functions. Then every way is tried that may be better, because only its result
shows how many nodes it writes. A function is structure of the model: it is lost only to avoid a
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
from opshift.convert.verdict_edges import verdict_of
from opshift.errors import AdapterBug, Refused, RefusedNode
from opshift.model.scope import FunctionId, Key
from opshift.opsets import schemas
from opshift.records import dataclass

if TYPE_CHECKING:
    from opshift.model.weights import Weights
    from opshift.protos import ModelProto
    from opshift.report import Report


@dataclass(frozen=True, slots=True)
class Way:
    """The changes that a conversion makes before its steps and outside of them."""

    inlined: tuple[FunctionId, ...] = ()  # functions that are written out at their calls
    unsure: frozenset[FunctionId] = field(default=frozenset(), compare=False)  # may be kept
    early: frozenset[str] = frozenset()  # IR features whose older form is written first
    via_above: int = 0  # the opset of ai.onnx at which other domains are stepped; 0: its own
    via_below: int = 0  # the opset to go down to before the goal; 0: none
    reinfers_between: bool = False  # at each opset between, the model is indexed and inferred anew
    leaves_first: bool = False  # domains are left before steps that go up, not after them
    foreseen: frozenset[Key] = frozenset()  # operators that a runtime does not read in a result
    opset: int = 0  # the opset to aim at, because a runtime has kernels there; 0: the nearest one

    @property
    def straight(self) -> bool:
        """Whether the way visits only versions between the model and the goal."""
        return not self.via_above and not self.via_below

    @property
    def work(self) -> tuple[int, ...]:
        """The work of the way, by which ways are tried and equal results are chosen."""
        kept = (
            int(self.via_below > 0),
            len(self.inlined),
            int(self.leaves_first),
            len(self.foreseen),
        )
        return (
            *kept,
            self.via_above,
            int(self.reinfers_between),
            len(self.early),
            int(self.opset > 0),
            -self.opset,
        )


STRAIGHT = Way()
MISSING_FACTS = {Why.NEEDS_CONSTANT, Why.NEEDS_TYPE, Why.NEEDS_RANK, Why.NEEDS_SHAPE}


@dataclass(frozen=True, slots=True)
class Reached:
    """The result of a way, its lost functions, and the number of nodes that compute something."""

    way: Way
    skeleton: ModelProto
    weights: Weights
    report: Report
    lost: int
    nodes: int

    @property
    def cost(self) -> tuple[int, int, int, int, int, tuple[int, ...]]:
        """The cost: gaps and doubts of the runtime, approximations, lost functions, nodes, work."""
        answer, inexact = self.report.runtime, len(self.report.approximations)
        lacks, doubts = (len(answer.reasons), len(answer.unknown)) if answer else (0, 0)
        return lacks, doubts, inexact, self.lost, self.nodes, self.way.work


@dataclass(slots=True)
class Ways:
    """A search over the paths of one conversion, by increasing work."""

    waiting: list[tuple[tuple[int, ...], int, Way]] = field(default_factory=list)
    known: set[Way] = field(default_factory=set)
    number: Iterator[int] = field(default_factory=itertools.count)
    best: Reached | None = None
    answer: Refused | None = None  # the refusal nearest to the goal
    bug: AdapterBug | None = None  # the first one on a way before any result
    seen: set[tuple[RefusedNode, ...]] = field(default_factory=set)

    def __iter__(self) -> Iterator[Way]:
        self._add(STRAIGHT)
        while self.waiting:
            way = heapq.heappop(self.waiting)[2]
            if not self._loses_more(way):
                yield way

    def reached(self, found: Reached, others: Iterable[Way]) -> None:
        """Records a result, and adds the paths that may give a better result.

        To limit the search, other functions are tried only after the best result so far.
        """
        better = self.best is None or found.cost < self.best.cost
        if better:
            self.best = found
        for way in others:
            if better or way.inlined == found.way.inlined:
                self._add(way)

    def _loses_more(self, way: Way) -> bool:
        """Whether a path costs more than the best path, because it loses more functions."""
        best = self.best
        exact = best is not None and not best.report.approximations
        return exact and best is not None and len(way.inlined) > best.lost

    def failed(self, bug: AdapterBug) -> None:
        """Notes a bug on a way that was tried only for a better result; any other is raised.

        It is raised last, because another way may show that the model is invalid.
        """
        if self.best is None:
            self.bug = self.bug or bug
            return
        told = f"a way that may give a better result was not compared, because of a bug: {bug}"
        report = replace(self.best.report, notes=(*self.best.report.notes, told))
        self.best = replace(self.best, report=report)

    def chosen(self) -> Reached:
        """The result of the lowest cost; raises a bug, or the refusal if no way has a result."""
        if self.bug is not None:
            raise self.bug
        if self.best is not None:
            return self.best
        assert self.answer is not None
        raise self.answer

    def refused(self, way: Way, refused: Refused, others: Iterable[Way]) -> None:
        """Records a refusal, and adds other paths unless the refusal is known."""
        plain = replace(way, inlined=(), leaves_first=False) == STRAIGHT
        if plain or refused.refusals not in self.seen:
            for one in others:
                self._add(one)
        self.seen.add(refused.refusals)
        known = self.answer
        direct = way.straight and not way.opset
        if known is None or plain or (direct and _distance(refused) < _distance(known)):
            self.answer = refused

    def _add(self, way: Way) -> None:
        if way not in self.known:
            self.known.add(way)
            heapq.heappush(self.waiting, (way.work, next(self.number), way))


def _distance(refused: Refused) -> int:
    """The number of versions between a target and the nearest versions."""
    goal, near = refused.target, refused.nearest
    return sum(abs(goal[domain] - near[domain]) for domain in goal if domain in near)


def alternatives(
    way: Way,
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
) -> Iterator[Way]:
    """The paths that differ from this path in one choice.

    The functions must be written out together, and each of the `unsure` ones perhaps.
    """
    if more := frozenset(unread) - way.foreseen:
        yield replace(way, foreseen=way.foreseen | more)
    yield from (replace(way, opset=one) for one in sorted(opsets, reverse=True))
    early = frozenset(one.says for one in features if one.sooner) - way.early
    if early:
        yield replace(way, early=way.early | early)
    if reinfers_between and not way.reinfers_between:
        yield replace(way, reinfers_between=True)
    if via_above > way.via_above:
        yield replace(way, via_above=via_above)
    if leaves and not way.leaves_first:
        yield replace(way, leaves_first=True)
    if via_below and not way.via_below:
        yield replace(way, via_below=via_below)
    yield from _inlining(way, functions, unsure)


def _inlining(
    way: Way, functions: Iterable[FunctionId], unsure: Collection[FunctionId]
) -> Iterator[Way]:
    """The paths that inline other functions: none, one, or all optional functions."""
    for which in way.inlined:
        if which in way.unsure:
            yield replace(way, inlined=tuple(one for one in way.inlined if one != which))
    calls = sorted({*functions} - {*way.inlined})
    perhaps = sorted({*unsure} - {*way.inlined, *calls})
    for more in ([], *([one] for one in perhaps), perhaps):
        if calls or more:
            known = way.unsure.union(perhaps)
            yield replace(way, inlined=(*way.inlined, *calls, *more), unsure=known)


def opset_below(refused: Refused, opset: int) -> int:
    """The opset at which no operator uses a type that the wanted IR version lacks."""
    wanted = refused.target.get("IR")
    via_below = versions.last_of(wanted).onnx if wanted is not None else opset
    return via_below if via_below < opset else 0


def reinference_helps(refusals: Iterable[RefusedNode], came_at: int, prefix: str) -> bool:
    """Whether a fact about a node is missing that a step has written.

    Inference of a whole model finds more than inference of the written nodes.
    """
    return any(
        not one.domain and one.boundary[0] != came_at
        for one in refusals
        if one.why in MISSING_FACTS and one.node.startswith(prefix)
    )


def opset_above(refusals: Iterable[RefusedNode], adapters: Registry, opset: int) -> int:
    """The opset of ai.onnx at which a way that is refused at a lower opset may continue."""
    found = [0]
    for one in refusals:
        start, to = one.boundary
        if one.domain:
            verdict = adapters.get(one.domain, one.op, start, to)
            found += [verdict.since] if verdict is not None and verdict.since > opset > 0 else []
        elif to < start and opset > 0:
            found.append(_replaced_at(one.op, start, adapters))
        elif to == start and opset > 0:
            found.append(_born_after(one.op, start))
    return max(found)


def descent_for(refusals: Iterable[RefusedNode], adapters: Registry) -> int:
    """The opset at which an operator is written out that cannot go up; 0: none."""
    found = [0]
    for one in refusals:
        start, to = one.boundary
        here = schemas.schema("", one.op, start) if not one.domain and to > start else None
        if here is None:
            continue
        down = verdict_of(adapters, "", one.op, here.since, down=True)
        written = down.within("") if down is not None else ()
        if written and one.op not in written:
            found.append(here.since - 1)
    return max(found)


def _replaced_at(op: str, version: int, adapters: Registry) -> int:
    """The opset above a version that can replace an operator by others; 0 if there is none."""
    here = schemas.schema("", op, version)
    for own in schemas.history("", op) if here is not None else ():
        up = verdict_of(adapters, "", op, own.since, down=False)
        others = {*up.within("")} - {op} if up is not None else set()
        if here is None or up is None or own.since < here.since or not others:
            continue
        later = (one.since for name in others for one in schemas.history("", name))
        return max((since for since in later if up.to < since <= up.to + 1), default=up.to)
    return 0


def _born_after(op: str, version: int) -> int:
    """The opset of the first implementation of an operator that does not exist yet; or 0."""
    born = (one.since for one in schemas.history("", op))
    return next((since for since in born if since > version), 0)
