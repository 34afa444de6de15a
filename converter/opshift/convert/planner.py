# SPDX-License-Identifier: Apache-2.0
"""Plans a conversion: for each operator, how it changes at each version up to the target.

At each version change, an operator stays, is rewritten, or cannot be converted. The plan continues
with each operator that the adapter may write.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from opshift.author.misreadings import misreadings
from opshift.author.registry import Registry
from opshift.author.verdicts import FORM, LEAVE, RETIRED, Adapter, place_of
from opshift.convert.plan_table import MISSING, UNREVIEWED, Edge
from opshift.convert.verdict_edges import FORMS, edge_at, edge_of, form_edge
from opshift.errors import AdapterBug
from opshift.model.scope import Key
from opshift.opsets import schemas
from opshift.records import dataclass
from opshift.text import qualified

if TYPE_CHECKING:
    from opshift.model.document import Document
    from opshift.opsets.targets import RuntimeRelease

ENGINE_WRITES = ("Constant", "Identity", "Cast")

Crossing = tuple[str, str, int, int]  # (domain, op, start, to)


@dataclass(frozen=True, slots=True)
class DeadEnd:
    """An operator that cannot be converted to the target, and its replacements on the way."""

    domain: str
    op: str
    trail: tuple[str, ...]
    edge: Edge

    def __str__(self) -> str:
        return f"{self.trail[-1]} {self.edge.start}->{self.edge.to}"

    @property
    def described(self) -> str:
        """The failing conversion as text, such as `Gelu, which becomes Erf 9->8`."""
        shown = qualified(self.domain, self.op)
        start, to = self.edge.start, self.edge.to
        return f"{', which becomes '.join((shown, *self.trail[1:]))} {start}->{to}"


@dataclass(slots=True)
class CrossingPlan:
    """The planned version changes of each operator; an unplanned one is a bug of an adapter."""

    adapters: Registry
    goal: Mapping[str, int] = field(default_factory=dict)
    present: frozenset[Key] = frozenset()  # the operators of the source model
    edges: dict[Crossing, Edge] = field(default_factory=dict)
    dead: list[DeadEnd] = field(default_factory=list)
    # operators that adapters wrote although no edge leads to them, with the version of the step
    unforeseen: set[tuple[Key, int]] = field(default_factory=set)

    def verdict(self, key: Key, boundary: tuple[int, int]) -> Adapter | None:
        """Returns the adapter for a planned version change of an operator, or None without one."""
        if (*key, *boundary) not in self.edges and _lacks(key, max(boundary)):
            return None
        if self.edge(key, boundary).verdict in (MISSING, UNREVIEWED):
            return None
        return self.adapters.get(*key, *boundary)

    def edge(self, key: Key, boundary: tuple[int, int]) -> Edge:
        """Returns the plan for a version change of an operator; raises AdapterBug without one."""
        edge = self.edges.get((*key, *boundary))
        if edge is None:
            raise AdapterBug(
                f"the plan does not contain {place_of(key[0], boundary)} for {key[1]}; report this"
                " together with the model"
            )
        return edge

    def leads_to(self) -> set[Key]:
        """Returns the source model's operators, and all operators that planned steps may write."""
        written = (edge.keys for edge in self.edges.values())
        engine = (("", op) for op in ENGINE_WRITES)
        unforeseen = (key for key, _ in self.unforeseen)
        return {*self.present, *unforeseen, *engine}.union(*written)

    def follow(self, domain: str, ops: Iterable[str], version: int, goal: int) -> None:
        """Plans the conversion of operators of one domain from one version to another."""
        for op in ops:
            self.edges.update(route_of(self.adapters, domain, op, version, goal))

    def extend(self, key: Key, version: int) -> None:
        """Plans the conversion of an operator that the plan lacks although an adapter wrote it."""
        self.unforeseen.add((key, version))
        self.follow(key[0], [key[1]], version, self.goal.get(key[0], version))

    def add_forms(self, release: RuntimeRelease | None, newer: Mapping[Key, Edge]) -> None:
        """Adds the rewrites at one version of each planned operator, and of the written operators.

        `newer` maps the last operator of a group of nodes to the rewrite by a newer operator.
        """
        waiting = self.leads_to()
        planned = set(waiting)
        while waiting:
            key = waiting.pop()
            # more runtimes run a FORM; the other forms are for a runtime without the operator
            places = (
                FORMS if release is not None and _may_lack(release, key, self.adapters) else (FORM,)
            )
            forms = (form_edge(self.adapters, *key, place) for place in places)
            for edge in filter(None, (*forms, newer.get(key))):
                self.edges[(*key, edge.start, edge.to)] = edge
                waiting.update(new for new in edge.keys if new not in planned)
                planned.update(edge.keys)

    def dead_end(self, domain: str, op: str, version: int, goal: int) -> DeadEnd | None:
        """Returns the version change at which an operator cannot be converted, or None."""
        trail, name, at = [op], op, _entry(domain, op, version, goal)
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
            ops = edge.within(domain)
            if name not in ops:
                name = next(iter(ops), "")
                trail.append(name)
        return None


def route_of(
    adapters: Registry, domain: str, op: str, version: int, goal: int
) -> dict[Crossing, Edge]:
    """Returns the planned changes of an operator and its replacements up to the version `goal`."""
    route: dict[Crossing, Edge] | None = adapters.routes.get((domain, op, version, goal))
    if route is not None:
        return route
    edges: dict[Crossing, Edge] = {}
    waiting, visited = [(op, _entry(domain, op, version, goal))], set[tuple[str, int]]()
    while waiting:
        op_now, at = waiting.pop()
        here = schemas.schema(domain, op_now, at)
        if here is None or (op_now, here.since) in visited:
            continue
        visited.add((op_now, here.since))
        edge = edge_of(adapters, domain, op_now, here.since, down=goal < at)
        if edge is not None and _lies_before(edge, goal):
            edges[domain, op_now, edge.start, edge.to] = edge
            waiting += [
                (name, edge.to)
                for name in (*edge.within(domain), *ENGINE_WRITES)
                if schemas.schema(domain, name, edge.to) is not None
            ]
    adapters.routes[domain, op, version, goal] = edges
    return edges


def _entry(domain: str, op: str, version: int, goal: int) -> int:
    """Returns the version from which an operator is planned: usually the imported version.

    An operator that is newer than the imported version is planned from its first version on.
    """
    if schemas.schema(domain, op, version) is None:
        born = next((schema.since for schema in schemas.history(domain, op)), 0)
        return born if version < born <= goal else version
    return version


def _lies_before(edge: Edge, goal: int) -> bool:
    return edge.to >= goal if edge.to < edge.start else edge.to <= goal


def of_document(
    document: Document, adapters: Registry, goal: dict[str, int], left: Collection[Key] = ()
) -> CrossingPlan:
    """Returns the plan for every operator of a model, from the imported versions to the target.

    The plan begins with the operators in `left`, which are rewritten in ai.onnx.
    """
    present = frozenset(key for root in document.roots for key in root.index)
    plan = CrossingPlan(adapters, goal, present)
    if "" not in goal:  # without another opset, the operators written at this opset are planned
        here = document.imports.get("") or 1
        plan.follow("", ENGINE_WRITES, here, here)
    leaves = {(*key, *LEAVE): edge_at(adapters, *key, *LEAVE) for key in left}
    plan.edges.update(leaves)
    from_others = {d: {op for edge in leaves.values() for op in edge.within(d)} for d in goal}
    for domain in sorted(goal, reverse=True):
        for version in document.versions_of(domain):
            ops = {
                op
                for root in document.roots
                if root.imports.get(domain) == version
                for key, op in root.index
                if key == domain
            }
            written = _without_schema(plan, ops, domain, version)
            written |= _ended(plan, ops, domain, version)
            every = {*ops, *written, *from_others[domain], *ENGINE_WRITES}
            plan.follow(domain, sorted(every), version, goal[domain])
            for op in sorted(ops):
                if (dead := plan.dead_end(domain, op, version, goal[domain])) is not None:
                    plan.dead.append(dead)
        for crossing, edge in plan.edges.items():
            for other_domain, new_ops in from_others.items() if crossing[0] == domain else ():
                new_ops.update(edge.within(other_domain))
    return plan


def _without_schema(plan: CrossingPlan, ops: set[str], domain: str, version: int) -> set[str]:
    """Plans the replacement of operators without a schema, and returns the new operators."""
    new_ops = set[str]()
    for op in ops:
        if schemas.schema(domain, op, version) is None and plan.adapters.retired(domain, op):
            edge = edge_at(plan.adapters, domain, op, *RETIRED)
            plan.edges[(domain, op, *RETIRED)] = edge
            new_ops.update(edge.writes)
    return new_ops


def _may_lack(release: RuntimeRelease, key: Key, adapters: Registry) -> bool:
    """Returns whether a runtime may lack an operator, its kernel, or an attribute of it."""
    return (
        release.may_lack(key)
        or any(misreadings(adapters, release, key))
        or (not key[0] and key[1] in release.other_forms)
    )


def _lacks(key: Key, version: int) -> bool:
    """Returns whether the installed onnx lacks an operator version, as 1.20 lacks Attention-25."""
    return version > 0 and bool(schemas.history(*key)) and schemas.schema(*key, version) is None


def _ended(plan: CrossingPlan, ops: set[str], domain: str, version: int) -> set[str]:
    """Plans the replacement of operators deprecated at `version`; returns the new operators."""
    new_ops = set[str]()
    for op in sorted(ops):
        here = schemas.schema(domain, op, version)
        if here is not None and here.deprecated and here.since > 1:
            plan.follow(domain, [op], here.since - 1, version)
    for (key, op, _, _), edge in plan.edges.items():
        if key == domain:
            new_ops |= {op, *edge.within(domain)}
    return new_ops


def lowest_to_write(verdicts: Iterable[Adapter], domain: str) -> int:
    """Returns the lowest version of a domain with every operator that the adapters may write."""
    since = [1]
    for verdict in verdicts:
        since += [verdict.since] if (verdict.start, verdict.to) == LEAVE else []
        for name in verdict.emits:
            written, _, op = name.rpartition(".")
            history = schemas.history(domain, op) if written == domain else ()
            since += [history[0].since] if history else []
    return max(since)
