# SPDX-License-Identifier: Apache-2.0
"""The plan of a conversion: an AND/OR graph of operator implementations and verdicts.

An implementation is left over one boundary by one verdict, which leads to every operator that
it may write.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import TYPE_CHECKING

from opshift.author.registry import Registry
from opshift.author.verdicts import LEAVE, Adapter
from opshift.convert.plan_table import MISSING, UNREVIEWED, Edge
from opshift.convert.verdict_edges import edge_of
from opshift.errors import AdapterBug
from opshift.opsets import schemas
from opshift.records import dataclass

if TYPE_CHECKING:
    from opshift.model.document import Document

ENGINE_WRITES = ("Constant", "Identity", "Cast")

Crossing = tuple[str, str, int, int]  # (domain, op, start, to)


@dataclass(frozen=True, slots=True)
class DeadEnd:
    """An operator that no verdict leads to the goal, and the operators on the way to its end."""

    domain: str
    op: str
    trail: tuple[str, ...]
    edge: Edge

    def __str__(self) -> str:
        return f"{self.trail[-1]} {self.edge.start}->{self.edge.to}"

    @property
    def way(self) -> str:
        """The operators that lead to the end, as in `Gelu, which becomes Erf 9->8`."""
        shown = f"{self.domain}.{self.op}" if self.domain else self.op
        start, to = self.edge.start, self.edge.to
        return f"{', which becomes '.join((shown, *self.trail[1:]))} {start}->{to}"


@dataclass(slots=True)
class CrossingPlan:
    """The crossings that a conversion may make; any other is a bug."""

    adapters: Registry
    edges: dict[Crossing, Edge] = field(default_factory=dict)
    dead: list[DeadEnd] = field(default_factory=list)

    def verdict(self, domain: str, op: str, start: int, to: int) -> Adapter | None:
        """The adapter of a planned crossing, None where the plan knows that there is none."""
        edge = self.edges.get((domain, op, start, to))
        if edge is None:
            raise AdapterBug(
                f"{op} meets {domain or 'ai.onnx'} {start}->{to}, where no planned edge leads; an"
                " adapter wrote it without naming it in emits="
            )
        found = self.adapters.get(domain, op, start, to)
        return None if edge.verdict in (MISSING, UNREVIEWED) else found

    def follow(self, domain: str, ops: Iterable[str], version: int, goal: int) -> None:
        """Plans the way of some operators of a domain from one version to another."""
        for op in ops:
            self.edges.update(_way(self.adapters, domain, op, version, goal))

    def dead_end(self, domain: str, op: str, version: int, goal: int) -> DeadEnd | None:
        """Where the verdicts stop an operator on its way to a goal that none of them reaches."""
        trail, name, at = [op], op, version
        while (here := schemas.schema(domain, name, at)) is not None:
            edge = edge_of(self.adapters, domain, name, here.since, down=goal < version)
            if edge is None or not _lies_before(edge, goal):
                return None
            down = edge.to < edge.start
            if edge.reach <= goal if down else edge.reach >= goal:
                return None
            if edge.dead:
                return DeadEnd(domain, op, tuple(trail), edge)
            at = edge.to
            own = edge.within(domain)
            if name not in own:
                name = next(iter(own), "")
                trail.append(name)
        return None


def _way(adapters: Registry, domain: str, op: str, version: int, goal: int) -> dict[Crossing, Edge]:
    """Every edge that an operator, or what is written for it, meets on its way to a version."""
    known: dict[Crossing, Edge] | None = adapters.ways.get((domain, op, version, goal))
    if known is not None:
        return known
    edges: dict[Crossing, Edge] = {}
    waiting, seen = [(op, version)], set[tuple[str, int]]()
    while waiting:
        op_now, at = waiting.pop()
        here = schemas.schema(domain, op_now, at)
        if here is None or (op_now, here.since) in seen:
            continue
        seen.add((op_now, here.since))
        edge = edge_of(adapters, domain, op_now, here.since, down=goal < at)
        if edge is not None and _lies_before(edge, goal):
            edges[domain, op_now, edge.start, edge.to] = edge
            waiting += [
                (name, edge.to)
                for name in (*edge.within(domain), *ENGINE_WRITES)
                if schemas.schema(domain, name, edge.to) is not None
            ]
    adapters.ways[domain, op, version, goal] = edges
    return edges


def _lies_before(edge: Edge, goal: int) -> bool:
    return edge.to >= goal if edge.to < edge.start else edge.to <= goal


def of_document(document: Document, adapters: Registry, goal: dict[str, int]) -> CrossingPlan:
    """The plan for every operator of a model, from the versions imported to the goal."""
    plan = CrossingPlan(adapters)
    from_others = {domain: set[str]() for domain in goal}
    for domain in sorted(goal, reverse=True):
        for version in sorted({r.imports[domain] for r in document.roots if domain in r.imports}):
            ops = {
                op
                for root in document.roots
                if root.imports.get(domain) == version
                for key, op in root.index
                if key == domain
            }
            written = _without_schema(ops, adapters, domain, version)
            written |= _ended(plan, ops, domain, version)
            every = {*ops, *written, *from_others[domain], *ENGINE_WRITES}
            plan.follow(domain, sorted(every), version, goal[domain])
            for op in sorted(ops):
                if (dead := plan.dead_end(domain, op, version, goal[domain])) is not None:
                    plan.dead.append(dead)
        for crossing, edge in plan.edges.items():
            for other, found in from_others.items() if crossing[0] == domain else ():
                found.update(edge.within(other))
    return plan


def _without_schema(ops: set[str], adapters: Registry, domain: str, version: int) -> set[str]:
    """What stands in place of operators that no schema describes."""
    unknown = [op for op in ops if schemas.schema(domain, op, version) is None]
    found = [adapter for op in unknown if (adapter := adapters.retired(domain, op)) is not None]
    return {name for adapter in found for name in adapter.emits}


def _ended(plan: CrossingPlan, ops: set[str], domain: str, version: int) -> set[str]:
    """What stands in place of operators met behind their deprecation, at the version met."""
    found = set[str]()
    for op in sorted(ops):
        here = schemas.schema(domain, op, version)
        if here is not None and here.deprecated and here.since > 1:
            plan.follow(domain, [op], here.since - 1, version)
    for (key, op, _, _), edge in plan.edges.items():
        if key == domain:
            found |= {op, *edge.within(domain)}
    return found


def lowest_to_write(verdicts: Iterable[Adapter], domain: str) -> int:
    """The version at which a domain has every operator that the verdicts may write."""
    since = [1]
    for verdict in verdicts:
        since += [verdict.since] if (verdict.start, verdict.to) == LEAVE else []
        for name in verdict.emits:
            written, _, op = name.rpartition(".")
            known = schemas.history(domain, op) if written == domain else ()
            since += [known[0].since] if known else []
    return max(since)
