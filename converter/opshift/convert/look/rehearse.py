# SPDX-License-Identifier: Apache-2.0
"""Rehearsals, which convert the skeleton alone and write nothing.

The questions about one model open it once. A rehearsal that goes further than the one before it
goes on from there, so there is one run down and one run up.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

from opshift.author import registry
from opshift.author.registry import Registry
from opshift.convert.api import Carve, carve_of, convert
from opshift.convert.attempt import Conversion
from opshift.convert.blockers import Outgrown
from opshift.convert.legal import diagnose
from opshift.convert.look import header, paths
from opshift.convert.look.plan import Path, Plan
from opshift.convert.request import NODE_BUDGET, Request
from opshift.convert.ways import STRAIGHT
from opshift.errors import InvalidModel, Refused, RefusedNode
from opshift.model.bytes import documents
from opshift.model.bytes.source import Opened
from opshift.opsets import schemas
from opshift.records import dataclass
from opshift.report import Report

if TYPE_CHECKING:
    from opshift.model.weights import Weights
    from opshift.protos import ModelProto

Carved: TypeAlias = "tuple[ModelProto, Weights]"
Source: TypeAlias = "ModelProto | str | os.PathLike[str] | Opened"


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """How a rehearsal ended: with a report or a refusal."""

    report: Report | None
    refused: Refused | None
    result: Carved | None = None

    @property
    def refusals(self) -> tuple[RefusedNode, ...]:
        return self.refused.refusals if self.refused else ()


@dataclass(frozen=True, slots=True)
class Limit:
    """How far a domain can be converted in one direction, and what stops it there."""

    version: int
    refusals: tuple[RefusedNode, ...] = ()
    outgrown: bool = False  # the model became too large to look further


class Rehearsals:
    """The rehearsals of one model, which is opened once."""

    def __init__(self, carve: Carve, options: Request, adapters: Registry) -> None:
        self.carve = carve
        self.options = options
        self.adapters = adapters
        self._opened: Conversion | None = None

    def opened(self) -> Conversion:
        """The opened model, from which each rehearsal begins; nobody changes it."""
        if self._opened is None:
            opened = Conversion(*self.carve(), self.options, self.adapters)
            with diagnose.on_the_model(opened):
                opened.open()
            self._opened = opened
        return self._opened

    def rehearse(self, options: Request) -> Rehearsed:
        """Converts the skeleton, with options that differ in the wanted versions only."""
        return _rehearsed(self.carve, options, self.opened)

    def furthest(
        self,
        domain: str,
        source: Mapping[str, int],
        end: int,
        told: Rehearsed | None = None,
        wanted: Mapping[str, int] | None = None,
    ) -> Limit:
        """The version of a domain nearest to `end` that a conversion reaches, and what stops it.

        `told` is the outcome of the conversion to `wanted`, which is used again if it has the
        answer.
        """
        start = source.get(domain)
        if start is None or start == end:
            return Limit(end if start is None else start)
        step, first = 1 if end > start else -1, True
        refusals: tuple[RefusedNode, ...] = ()
        at = _on_the_way(told, domain, start, end)
        if at == end:
            return Limit(end)
        if told and told.report and at != start and _growth(told.report) > NODE_BUDGET:
            return Limit(at, outgrown=True)
        while end != start:
            known = told if first and told and _settles(told.refused, start, wanted, end) else None
            there = _towards(self.options, domain, end)
            try:
                last, first = known or self.rehearse(there), False
            except Outgrown as outgrown:
                reached = outgrown.reached.get(domain, start)
                return Limit(at if (at - reached) * step > 0 else reached, refusals, outgrown=True)
            except InvalidModel:  # a fault in a node that is in the way only so far from the source
                first, end = False, end - step
                continue
            if last.refused is None:
                return Limit(end, refusals)
            refusals = last.refusals
            near = last.refused.nearest.get(domain, start)
            if _one_way(last.refused, step):
                return Limit(near, refusals)
            end = near if (end - near) * step > 0 else end - step
        return Limit(end, refusals)


def _rehearsed(
    carve: Carve, options: Request, opened: Callable[[], Conversion] | None = None
) -> Rehearsed:
    try:
        skeleton, store, report = convert(carve, options, opened)
        return Rehearsed(report, None, (skeleton, store))
    except Refused as refused:
        return Rehearsed(None, refused)


def plan(model: Source, options: Request) -> Plan:
    """The plan of a conversion from a rehearsal of every step; nothing is written."""
    return plan_with_result(model, options)[0]


@diagnose.protobuf_errors()
def plan_with_result(model: Source, options: Request) -> tuple[Plan, Carved | None]:
    """The plan of a conversion, and the converted model if there is one."""
    with documents.beside(model):
        return _plan_with_result(model, options, registry.default())


def _plan_with_result(
    model: Source, options: Request, adapters: Registry
) -> tuple[Plan, Carved | None]:
    carve = carve_of(model)
    if (short := _of_header(model, carve, options)) is not None:
        return short
    # A conversion of the header alone looks at no node, so that it refuses none.
    shared = dataclasses.replace(options, check="none") if options.only_ir else options
    runs = Rehearsals(carve, shared, adapters)
    told = runs.rehearse(options)
    opened = runs.opened().branch(options, STRAIGHT)
    opened.aim()
    source, report, refused = opened.document.imports.as_dict(), told.report, told.refused
    wanted = _reached(opened.goal, source, report)
    steps = report.steps if report else refused.steps if refused else ()
    low, high = _limits(runs, source, told, wanted)
    found = Plan(
        source,
        wanted,
        tuple(_paths(opened, told)),
        tuple(step for step in steps if step.rewritten or step.kept),
        told.refusals,
        refused.nearest if refused else report.result if report else source,
        {domain: limit.version for domain, limit in low.items()},
        {domain: limit.version for domain, limit in high.items()},
        report.approximations if report else (),
        outgrown=tuple(sorted(d for d in wanted if low[d].outgrown or high[d].outgrown)),
        notes=report.notes if report else (),
        assumptions=report.assumptions if report else (),
        modernized=report.modernized if report else (),
        ir_before=report.ir_before if report else opened.document.model.ir_version,
        ir_after=report.ir_after if report else None,
    )
    return found, told.result


def _limits(
    runs: Rehearsals, source: Mapping[str, int], told: Rehearsed, wanted: Mapping[str, int]
) -> tuple[dict[str, Limit], dict[str, Limit]]:
    """How far each domain goes down and up; the direction of the plan is looked at first."""
    low, high = dict[str, Limit](), dict[str, Limit]()
    for domain, to in wanted.items():
        ways = [(low, 1), (high, newest(domain, source))]
        for found, end in ways if to < source.get(domain, to) else reversed(ways):
            found[domain] = runs.furthest(domain, source, end, told, wanted)
    return low, high


def _reached(
    goal: Mapping[str, int], source: Mapping[str, int], report: Report | None
) -> dict[str, int]:
    """The wanted versions; those of a result, where they depend on what the steps write."""
    result = report.result if report else {}
    moved = {d: v for d, v in result.items() if d in goal or source.get(d, v) != v}
    return {**goal, **moved}


def _of_header(model: Source, carve: Carve, options: Request) -> tuple[Plan, Carved | None] | None:
    """The plan for a file of which only the header changes, if it can be converted."""
    if not isinstance(model, Opened) or options != Request(options.target):
        return None
    if (found := header.changes(model, options.target)) is None:
        return None
    told = _rehearsed(carve, options)
    if (report := told.report) is None:
        return None
    paths = tuple(Path(*key, count, (), None) for key, count in found.operators)
    short = Plan(
        found.source,
        found.target,
        paths,
        (),
        (),
        report.result,
        {},
        {},
        report.approximations,
        header_only=True,
        notes=report.notes,
        assumptions=report.assumptions,
        ir_before=report.ir_before,
        ir_after=report.ir_after,
    )
    return short, told.result


def _paths(opened: Conversion, told: Rehearsed) -> Iterator[Path]:
    counts: dict[tuple[str, str], int] = {}
    for root in opened.document.roots:
        for key, places in root.index.items():
            counts[key] = counts.get(key, 0) + len(places)
    source = opened.document.imports.as_dict()
    steps = told.report.steps if told.report else told.refused.steps if told.refused else ()
    for (domain, op), count in sorted(counts.items()):
        if domain in opened.goal and domain in source:
            versions = source[domain], opened.goal[domain]
            yield paths.path_of(
                opened.adapters, (domain, op), versions, count, steps, told.refusals
            )


def newest(domain: str, source: Mapping[str, int]) -> int:
    """The highest version of a domain that can be asked for."""
    return schemas.latest(domain) or source.get(domain, 1)


def _towards(options: Request, domain: str, end: int) -> Request:
    """The same request for one version of one domain, with a limit for what it may write."""
    return dataclasses.replace(
        options, target={domain: end}, ir_version="auto", minimal=False, node_budget=NODE_BUDGET
    )


def _on_the_way(told: Rehearsed | None, domain: str, start: int, end: int) -> int:
    """Where the result of a conversion is on the way to the end; the start if it is elsewhere."""
    at = told.report.result.get(domain, start) if told and told.report else start
    return at if min(start, end) <= at <= max(start, end) else start


def _growth(report: Report) -> int:
    """How many nodes a conversion added."""
    return (report.nodes_after or 0) - (report.nodes_before or 0)


def _settles(
    refused: Refused | None, start: int, wanted: Mapping[str, int] | None, end: int
) -> bool:
    """Whether the blockers of one conversion also block one that goes further."""
    if refused is None or wanted is None or len(wanted) != 1:
        return False
    (target,) = wanted.values()
    return (start > target >= end or start < target <= end) and _one_way(
        refused, 1 if end > start else -1
    )


def _one_way(refused: Refused, step: int) -> bool:
    """Whether every boundary of a refused conversion was crossed in one direction.

    A function may come from the other side, what left the registry is replaced in view of the
    target, and the IR version that a named target wants is asked for by no other.
    """
    crossed = [(one.start, one.to) for one in refused.steps]
    crossed += [refusal.boundary for refusal in refused.refusals]
    return "IR" not in refused.target and all((to - start) * step > 0 for start, to in crossed)
