# SPDX-License-Identifier: Apache-2.0
"""Trial conversions of a model without its large weights, which write no file.

All trial conversions of a model open it once. A trial conversion to a farther version continues the
previous one, so a model is converted once downwards and once upwards.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
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
from opshift.report import Report, StepReport

if TYPE_CHECKING:
    from opshift.model.weights import Weights
    from opshift.protos import ModelProto

Skeleton: TypeAlias = "tuple[ModelProto, Weights]"
Source: TypeAlias = "ModelProto | str | os.PathLike[str] | Opened"


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """The result of a trial conversion: a report or a refusal."""

    report: Report | None
    refused: Refused | None
    result: Skeleton | None = None

    @property
    def refusals(self) -> tuple[RefusedNode, ...]:
        return self.refused.refusals if self.refused else ()

    @property
    def steps(self) -> tuple[StepReport, ...]:
        """The steps of the conversion, or those before its refusal."""
        if self.report is not None:
            return self.report.steps
        return self.refused.steps if self.refused is not None else ()


@dataclass(frozen=True, slots=True)
class Limit:
    """The farthest version of a domain in one direction, and the nodes that block the next."""

    version: int
    refusals: tuple[RefusedNode, ...] = ()
    outgrown: bool = False  # the search stopped because the model became too large


class Rehearsals:
    """Trial conversions of one model, which is opened only once."""

    def __init__(self, open_skeleton: OpenSkeleton, options: Request, adapters: Registry) -> None:
        self.open_skeleton = open_skeleton
        self.options = options
        self.adapters = adapters
        self._opened: Conversion | None = None

    def opened(self) -> Conversion:
        """Returns the opened model, which is never changed; each trial conversion copies it."""
        if self._opened is None:
            opened = Conversion(*self.open_skeleton(), self.options, self.adapters)
            with diagnose.on_the_model(opened):
                opened.open()
            self._opened = opened
        return self._opened

    def rehearse(self, options: Request) -> Rehearsed:
        """Converts the model with options that differ only in the target versions."""
        try:
            skeleton, weights, report = convert(self.open_skeleton, options, self.opened)
        except Refused as refused:
            return Rehearsed(None, refused)
        return Rehearsed(report, None, (skeleton, weights))

    def furthest(
        self,
        domain: str,
        source: Mapping[str, int],
        end: int,
        prior: Rehearsed | None = None,
        wanted: Mapping[str, int] | None = None,
    ) -> Limit:
        """Returns the reachable version of a domain that is nearest to `end`, and its blockers.

        If an earlier conversion to `wanted` had the result `prior`, the search may use it.
        """
        start = source.get(domain)
        if start is None or start == end:
            return Limit(end if start is None else start)
        step, first = 1 if end > start else -1, True
        refusals: tuple[RefusedNode, ...] = ()
        at = _on_the_way(prior, domain, start, end)
        if at == end:
            return Limit(end)
        if prior and prior.report and at != start and _growth(prior.report) > NODE_BUDGET:
            return Limit(at, outgrown=True)
        while end != start:
            known = (
                prior if first and prior and _settles(prior.refused, start, wanted, end) else None
            )
            there = _towards(self.options, domain, end)
            try:
                last, first = known or self.rehearse(there), False
            except Outgrown as outgrown:
                reached = outgrown.reached.get(domain, start)
                return Limit(at if (at - reached) * step > 0 else reached, refusals, outgrown=True)
            except InvalidModel:  # an invalid node may show only far from the source version
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


def newest(domain: str, source: Mapping[str, int]) -> int:
    """Returns the highest version of a domain that a request can name."""
    return schemas.latest(domain) or source.get(domain, 1)


def _towards(options: Request, domain: str, end: int) -> Request:
    """Returns options for one version of one domain, with a limit on added nodes."""
    return dataclasses.replace(
        options, target={domain: end}, ir_version="auto", minimal=False, node_budget=NODE_BUDGET
    )


def _on_the_way(prior: Rehearsed | None, domain: str, start: int, end: int) -> int:
    """Returns the result's version of a domain if it is between start and end, else the start."""
    at = prior.report.result.get(domain, start) if prior and prior.report else start
    return at if min(start, end) <= at <= max(start, end) else start


def _growth(report: Report) -> int:
    """Returns the number of nodes that a conversion added."""
    return (report.nodes_after or 0) - (report.nodes_before or 0)


def _settles(
    refused: Refused | None, start: int, wanted: Mapping[str, int] | None, end: int
) -> bool:
    """Returns whether the blockers of a conversion also block one to a farther version."""
    if refused is None or wanted is None or len(wanted) != 1:
        return False
    (target,) = wanted.values()
    return (start > target >= end or start < target <= end) and _one_way(
        refused, 1 if end > start else -1
    )


def _one_way(refused: Refused, step: int) -> bool:
    """Returns whether all version changes of a refused conversion had one direction.

    If the directions differ, the blockers prove nothing about another target. For example, a
    function may have other imports, or the target may set the IR version.
    """
    crossed = [(step.start, step.to) for step in refused.steps]
    crossed += [refusal.boundary for refusal in refused.refusals]
    return "IR" not in refused.target and all((to - start) * step > 0 for start, to in crossed)
