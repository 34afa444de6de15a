"""The path of every operator to the target, its dead ends, and a rehearsal that touches nothing."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from onnx import ModelProto

from opshift.author import registry
from opshift.author.verdicts import APPROXIMATE_COST, Adapter, Kind
from opshift.convert.api import Carve, Options, Target, convert
from opshift.convert.attempt import Conversion
from opshift.convert.legal import diagnose
from opshift.convert.look.plan import Hop, Path, Plan
from opshift.convert.step import Outgrown
from opshift.errors import Refused
from opshift.model import weights
from opshift.opsets import schemas, targets
from opshift.report import Report

if TYPE_CHECKING:
    import networkx as nx

Implementation = tuple[str, str, int]  # (domain, op, since_version)
Told = tuple[Report | None, Refused | None]
NOWHERE: Implementation = ("", "nowhere", 0)
NODE_BUDGET = 50_000  # nodes that are written to learn how far a model can go: some seconds


@diagnose.unreadable_text()
def plan(
    model: ModelProto | str | os.PathLike[str],
    target: Target | str,
    *,
    allow_approximate: bool = False,
) -> Plan:
    """What converting `model` to `target` would do, node by node; nothing is written or changed."""

    def carve() -> tuple[ModelProto, weights.Weights]:
        if isinstance(model, ModelProto):
            return weights.carve_model(model)
        return weights.carve_file(model)

    options = Options(targets.wanted(target), allow_approximate=allow_approximate)
    opened = Conversion(*carve(), options)
    with diagnose.on_the_model(opened):
        opened.open(registry.default())
        opened.aim()
    wanted = opened.goal
    source = opened.document.imports.as_dict()
    counts: dict[tuple[str, str], int] = {}
    for root in opened.document.roots:
        for key, places in root.index.items():
            counts[key] = counts.get(key, 0) + len(places)
    told = report, refused = rehearse(carve, options)
    steps = report.steps if report else refused.steps if refused else ()
    large: set[str] = set()
    lowest = _furthest(carve, options, told, wanted, source, large, down=True)
    highest = _furthest(carve, options, told, wanted, source, large, down=False)
    return Plan(
        source,
        wanted,
        tuple(_paths(counts, source, wanted)),
        tuple(step for step in steps if step.rewritten or step.kept),
        refused.refusals if refused else (),
        refused.nearest if refused else report.result if report else source,
        lowest,
        highest,
        report.approximations if report else (),
        outgrown=tuple(sorted(large)),
    )


def rehearse(carve: Carve, options: Options) -> Told:
    """A conversion of the skeleton alone: its report, or its refusal."""
    try:
        return convert(carve, options)[2], None
    except Refused as refused:
        return None, refused


def _furthest(
    carve: Carve,
    options: Options,
    told: Told,
    wanted: Mapping[str, int],
    source: Mapping[str, int],
    large: set[str],
    *,
    down: bool,
) -> dict[str, int]:
    """The lowest or highest version of each named domain that can be reached.

    `told` is how the way to what is wanted ended: where that is the same way, it is not gone again.
    A domain in which the model becomes too large on the way is put down in `large`.
    """
    found: dict[str, int] = {}
    for domain, target in wanted.items():
        end = 1 if down else schemas.latest(domain) or source[domain]
        last = told
        if len(wanted) > 1 or not _settles(told[1], source.get(domain), target, end):
            there = dataclasses.replace(options, target={domain: end}, node_budget=NODE_BUDGET)
            try:
                last = rehearse(carve, there)
            except Outgrown as outgrown:
                found |= outgrown.reached
                large.add(domain)
                continue
        report, refused = last
        reached = report.result if report else refused.nearest if refused else source
        found[domain] = reached.get(domain, end)
    return found


def _settles(refused: Refused | None, start: int | None, target: int, end: int) -> bool:
    """Whether what stopped one way between versions stops one that leads further as well."""
    if refused is None or start is None or not (start > target >= end or start < target <= end):
        return False
    # A function may come from the other side, what left the registry is replaced in view of the
    # target, and the IR version that a named target wants is asked for by no other.
    crossed = [(step.start, step.to) for step in refused.steps]
    crossed += [refusal.boundary for refusal in refused.refusals]
    one_way = all(here != there and (there > here) == (end > start) for here, there in crossed)
    return one_way and "IR" not in refused.target


def _paths(
    counts: Mapping[tuple[str, str], int], source: Mapping[str, int], wanted: Mapping[str, int]
) -> Iterator[Path]:
    for (domain, op), count in sorted(counts.items()):
        if domain in wanted and domain in source:
            yield path_of(domain, op, source[domain], wanted[domain], count)


def path_of(domain: str, op: str, start: int, to: int, count: int = 0) -> Path:
    """The cheapest path of one operator between two versions of its domain."""
    import networkx as nx

    first = schemas.schema(domain, op, start)
    if first is None:
        return Path(domain, op, count, (), f"{op} is not described at {start}")
    graph = implementations(domain, start, to)
    begin, end = (domain, op, first.since), NOWHERE
    try:
        nodes = nx.shortest_path(graph, begin, end, weight="cost")
    except nx.NetworkXNoPath:
        nodes = _as_far_as_possible(graph, begin)
    hops = []
    for here, there in itertools.pairwise(nodes):
        if there != NOWHERE:
            hops.append(_hop(here, graph.edges[here, there]["adapter"]))
    last = nodes[-1]
    dead = None if last == end else _why_dead(last, start, to)
    return Path(domain, op, count, tuple(hops), dead)


def implementations(domain: str, start: int, to: int) -> nx.DiGraph:
    """Implementations of a domain and what leads from one to the next between two versions.

    An implementation in force at the target leads to NOWHERE, the common end of all paths. A
    decomposition leads to what it writes.
    """
    import networkx as nx

    graph = nx.DiGraph()
    step = 1 if to > start else -1
    adapters = registry.default()
    for op in schemas.operators(domain):
        for schema in schemas.history(domain, op):
            graph.add_node((domain, op, schema.since))
        final = schemas.schema(domain, op, to)
        if final is not None:
            graph.add_edge((domain, op, final.since), NOWHERE, cost=0)
    for version in range(start, to, step):
        for op in schemas.changed(domain, max(version, version + step)):
            adapter = adapters.get(domain, op, version, version + step)
            before = schemas.schema(domain, op, version)
            if adapter is None or before is None or adapter.kind is Kind.IMPOSSIBLE:
                continue
            _connect(graph, (domain, op, before.since), adapter, version + step)
    return graph


def _connect(graph: nx.DiGraph, begin: Implementation, adapter: Adapter, to: int) -> None:
    domain, op, _ = begin
    cost = adapter.kind.value + (APPROXIMATE_COST if adapter.approximate else 0)
    after = schemas.schema(domain, op, to)
    if after is not None and not after.deprecated:
        graph.add_edge(begin, (domain, op, after.since), cost=cost, adapter=adapter)
        return
    for name in adapter.emits:
        there = schemas.schema(domain, name, to)
        if there is not None:
            cost = Kind.DECOMPOSITION.value + (APPROXIMATE_COST if adapter.approximate else 0)
            graph.add_edge(begin, (domain, name, there.since), cost=cost, adapter=adapter)


def _as_far_as_possible(graph: nx.DiGraph, begin: Implementation) -> list[Implementation]:
    import networkx as nx

    paths: dict[Implementation, list[Implementation]] = nx.single_source_dijkstra_path(
        graph, begin, weight="cost"
    )
    return max(paths.values(), key=lambda path: len(path))


def _hop(here: Implementation, adapter: Adapter) -> Hop:
    domain, op, _ = here
    kept = schemas.schema(domain, op, adapter.to)
    kind = adapter.kind if kept and not kept.deprecated else Kind.DECOMPOSITION
    verdict = "approximate" if adapter.approximate else kind.name.lower()
    emits = tuple(sorted(adapter.emits))
    return Hop(op, adapter.start, adapter.to, verdict, emits, adapter.summary)


def _why_dead(last: Implementation, start: int, to: int) -> str:
    domain, op, since = last
    down = to < start
    if down:
        adapter = registry.default().get(domain, op, since, since - 1)
        where = f"{since}->{since - 1}"
    else:
        later = next(s.since for s in schemas.history(domain, op) if s.since > since)
        adapter = registry.default().get(domain, op, later - 1, later)
        where = f"{later - 1}->{later}"
    reason = adapter.summary if adapter else "nobody has described this change yet"
    return f"{op} {where}: {reason}"
