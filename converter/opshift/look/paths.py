# SPDX-License-Identifier: Apache-2.0
"""Finds how an operator changes on the way to the target, from the steps of a trial."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from opshift.author.registry import Registry
from opshift.codes.refusals import Why
from opshift.convert import planner, verdict_edges
from opshift.convert.plan_table import Edge
from opshift.errors import RefusedNode
from opshift.look.plan import Hop, Path
from opshift.opsets import schemas
from opshift.report import StepReport


def path_of(
    adapters: Registry,
    key: tuple[str, str],
    versions: tuple[int, int],
    count: int,
    steps: Sequence[StepReport],
    refusals: Sequence[RefusedNode],
) -> Path:
    """Returns the changes of an operator from one version of its domain to another.

    The steps of a trial conversion show which operators replaced the operator on the way.
    """
    (domain, op), (start, goal) = key, versions
    steps_by_versions = {(one.start, one.to): one for one in steps if one.domain == domain}
    hops, present = list[Hop](), {op}
    # the operator is blocked at its present version
    stopped = _stopped(domain, present, (start, start), refusals)
    step = 1 if goal > start else -1
    for version in range(start, start if stopped else goal, step):
        boundary = version, version + step
        met = list(_met(adapters, domain, present, *boundary))
        hops += [_hop(adapters, domain, *one) for one in met if not one[1].dead]
        stopped = _stopped(domain, present, boundary, refusals)
        if stopped is not None:
            break
        for name, edge in met:
            if name not in edge.within(domain):
                present.discard(name)
            present |= _written(name, steps_by_versions.get(boundary))
    if stopped is None:
        hops += _forms(domain, goal, present, steps)
    if stopped is None and refusals:
        stopped = dead_end(adapters, key, versions)
    return Path(domain, op, count, tuple(hops), stopped)


def _met(
    adapters: Registry, domain: str, present: set[str], version: int, to: int
) -> Iterator[tuple[str, Edge]]:
    """Yields the operators that a version change affects, with their conversion."""
    for name in sorted(present):
        here = schemas.schema(domain, name, version)
        edge = here and verdict_edges.edge_of(adapters, domain, name, here.since, down=to < version)
        if edge and (edge.start, edge.to) == (version, to):
            yield name, edge


def _written(op: str, step: StepReport | None) -> set[str]:
    """Returns the operators that a step wrote in place of an operator."""
    return {name for w in (step.rewritten if step else ()) if w.op == op for name in w.gives}


def _forms(domain: str, goal: int, present: set[str], steps: Sequence[StepReport]) -> Iterator[Hop]:
    """Yields the equivalent nodes that the trial conversion wrote at the target version."""
    for step in steps:
        if (step.domain, step.start, step.to) == (domain, goal, goal):
            for work in step.rewritten:
                if work.op in present:
                    emits = tuple(sorted({*work.gives}))
                    yield Hop(work.op, goal, goal, "form", emits, "another form of the operator")


def _stopped(
    domain: str, present: set[str], boundary: tuple[int, int], refusals: Sequence[RefusedNode]
) -> str | None:
    for refusal in refusals:
        if refusal.domain == domain and refusal.boundary == boundary and refusal.op in present:
            return f"{refusal.op} {boundary[0]}->{boundary[1]}: {refusal.detail}"
    return None


def dead_end(adapters: Registry, key: tuple[str, str], versions: tuple[int, int]) -> str | None:
    """Returns, as text, the version change at which an operator cannot be converted, or None."""
    dead = planner.CrossingPlan(adapters).dead_end(*key, *versions)
    if dead is None:
        return None
    adapter = adapters.get(key[0], dead.trail[-1], dead.edge.start, dead.edge.to)
    return f"{dead}: {adapter.sentence if adapter else Why.NO_ADAPTER.value}"


def _hop(adapters: Registry, domain: str, op: str, edge: Edge) -> Hop:
    adapter = adapters.get(domain, op, edge.start, edge.to)
    verdict = "approximate" if edge.approximate else edge.verdict
    emits = tuple(sorted(adapter.emits)) if adapter else ()
    return Hop(op, edge.start, edge.to, verdict, emits, adapter.sentence if adapter else "")
