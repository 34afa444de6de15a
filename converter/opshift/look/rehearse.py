# SPDX-License-Identifier: Apache-2.0
"""Rehearsals: conversions of the skeleton, which write no file.

All questions about one model share one opened model. A longer rehearsal continues the previous one,
so there is one run down and one run up.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from opshift.author.registry import Registry
from opshift.convert.attempt import Conversion
from opshift.convert.blockers import Outgrown
from opshift.convert.cheapest_strategy import OpenSkeleton, convert
from opshift.convert.legal import diagnose
from opshift.convert.request import NODE_BUDGET, Request
from opshift.errors import InvalidModel, Refused, RefusedNode
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
    """The last reachable version of a domain in one direction, and the obstacle there."""

    version: int
    refusals: tuple[RefusedNode, ...] = ()
    outgrown: bool = False  # the model became too large to look further


class Rehearsals:
    """The rehearsals of one model, which is opened once."""

    def __init__(self, open_skeleton: OpenSkeleton, options: Request, adapters: Registry) -> None:
        self.open_skeleton = open_skeleton
        self.options = options
        self.adapters = adapters
        self._opened: Conversion | None = None

    def opened(self) -> Conversion:
        """The opened model, from which each rehearsal begins; it is never changed."""
        if self._opened is None:
            opened = Conversion(*self.open_skeleton(), self.options, self.adapters)
            with diagnose.on_the_model(opened):
                opened.open()
            self._opened = opened
        return self._opened

    def rehearse(self, options: Request) -> Rehearsed:
        """Converts the skeleton, with options that differ in the wanted versions only."""
        return rehearsed(self.open_skeleton, options, self.opened)

    def furthest(
        self,
        domain: str,
        source: Mapping[str, int],
        end: int,
        told: Rehearsed | None = None,
        wanted: Mapping[str, int] | None = None,
    ) -> Limit:
        """The version of a domain nearest to `end` that a conversion reaches, and the obstacle.

        `told` is the outcome of the conversion to `wanted`, which is reused if it contains the
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


def rehearsed(
    open_skeleton: OpenSkeleton, options: Request, opened: Callable[[], Conversion] | None = None
) -> Rehearsed:
    """Converts a skeleton; returns the report or the refusal."""
    try:
        skeleton, weights, report = convert(open_skeleton, options, opened)
        return Rehearsed(report, None, (skeleton, weights))
    except Refused as refused:
        return Rehearsed(None, refused)


def newest(domain: str, source: Mapping[str, int]) -> int:
    """The highest version of a domain that a request can name."""
    return schemas.latest(domain) or source.get(domain, 1)


def _towards(options: Request, domain: str, end: int) -> Request:
    """The same request for one version of one domain, with a limit for the written nodes."""
    return dataclasses.replace(
        options, target={domain: end}, ir_version="auto", minimal=False, node_budget=NODE_BUDGET
    )


def _on_the_way(told: Rehearsed | None, domain: str, start: int, end: int) -> int:
    """The version of the result on the way to the end; the start if the result is elsewhere."""
    at = told.report.result.get(domain, start) if told and told.report else start
    return at if min(start, end) <= at <= max(start, end) else start


def _growth(report: Report) -> int:
    """How many nodes a conversion added."""
    return (report.nodes_after or 0) - (report.nodes_before or 0)


def _settles(
    refused: Refused | None, start: int, wanted: Mapping[str, int] | None, end: int
) -> bool:
    """Whether the blockers of one conversion also block a longer conversion."""
    if refused is None or wanted is None or len(wanted) != 1:
        return False
    (target,) = wanted.values()
    return (start > target >= end or start < target <= end) and _one_way(
        refused, 1 if end > start else -1
    )


def _one_way(refused: Refused, step: int) -> bool:
    """Whether every boundary of a refused conversion was crossed in one direction.

    Three exceptions: a function may come from the other side, retired operators are replaced in
    view of the target, and only a named target asks for its IR version.
    """
    crossed = [(one.start, one.to) for one in refused.steps]
    crossed += [refusal.boundary for refusal in refused.refusals]
    return "IR" not in refused.target and all((to - start) * step > 0 for start, to in crossed)
