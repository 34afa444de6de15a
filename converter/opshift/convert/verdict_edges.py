# SPDX-License-Identifier: Apache-2.0
"""Finds how each operator version is converted to the next or previous version.

A shipped table has the results, so that a conversion does not import networkx. `python -m
tools.author update plans` writes the table. An entry of the table that contradicts the installed
adapters is computed again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from opshift import versions
from opshift.author import registry
from opshift.author.registry import Registry
from opshift.author.verdicts import ALTERNATIVE, FORM, WORDS, Adapter
from opshift.convert.plan_table import (
    MISSING,
    UNREVIEWED,
    UNSETTLED,
    Edge,
    Implementation,
    library,
    shipped,
    solve,
)
from opshift.opsets import schemas
from opshift.report import IMPOSSIBLE
from opshift.text import qualified

if TYPE_CHECKING:
    import networkx as nx

FORMS = (FORM, ALTERNATIVE, WORDS)


def edge_of(adapters: Registry, domain: str, op: str, since: int, *, down: bool) -> Edge | None:
    """Returns how an operator version is converted, or None for the last operator version."""
    key = (domain, op, since, down)
    if key not in adapters.known_edges:
        adapters.known_edges[key] = _find_edge(adapters, *key)
    edge: Edge | None = adapters.known_edges[key]
    return edge


def _find_edge(adapters: Registry, domain: str, op: str, since: int, down: bool) -> Edge | None:
    boundary = _boundary(domain, op, since, down=down)
    entry = shipped(domain, op, since, down)
    if entry is None or (boundary and not _holds(adapters, entry, domain, op, boundary)):
        entry = solved(adapters, domain, down=down)[domain, op, since]
    return entry if boundary else None


def _holds(adapters: Registry, edge: Edge, domain: str, op: str, boundary: tuple[int, int]) -> bool:
    """Returns whether an entry of the table agrees with the installed adapter."""
    if (edge.start, edge.to) != boundary:
        return False
    if edge.verdict not in UNSETTLED and adapters.is_as_indexed((domain, op, *boundary)):
        return True  # the row was solved from this adapter, so the adapter need not be imported
    adapter = adapters.get(domain, op, *boundary)
    bare = _bare(adapter, domain, op, *boundary)
    if (edge.verdict, edge.approximate) != (bare.verdict, bare.approximate):
        return False
    emitted = adapter.emits if adapter is not None and not bare.dead else frozenset()
    return emitted.issubset(edge.writes)


def _boundary(domain: str, op: str, since: int, *, down: bool) -> tuple[int, int] | None:
    """Returns the version change at which an operator version ends, or None."""
    if down:
        return (since, since - 1) if since > 1 else None
    later = [schema.since for schema in schemas.history(domain, op) if schema.since > since]
    return (later[0] - 1, later[0]) if later else None


def edge_at(adapters: Registry, domain: str, op: str, start: int, to: int) -> Edge:
    """Returns how an operator is converted between two versions, and what its adapter writes."""
    adapter = adapters.get(domain, op, start, to)
    bare = _bare(adapter, domain, op, start, to)
    if adapter is None or bare.dead:
        return bare
    return replace(bare, writes=tuple(sorted({*bare.writes, *adapter.emits})))


def _bare(adapter: Adapter | None, domain: str, op: str, start: int, to: int) -> Edge:
    """Returns how an operator is converted, without the operators that its adapter writes."""
    if adapter is None:
        return Edge(start, to, MISSING, False, ())
    if not registry.reviewed(adapter, op):
        return Edge(start, to, UNREVIEWED, False, ())
    after = schemas.schema(domain, op, to)
    stays = after is not None and not after.deprecated
    dead = adapter.kind == IMPOSSIBLE
    kind = adapter.kind if stays or dead else "decomposition"
    return Edge(start, to, kind, adapter.approximate, (qualified(domain, op),) if stays else ())


def form_edge(adapters: Registry, domain: str, op: str, place: tuple[int, int]) -> Edge | None:
    """Returns the rewrite of an operator at the same version, or None if there is none."""
    entry = shipped(domain, op, place[0], False)
    if entry is not None and adapters.is_as_indexed((domain, op, *place)):
        return entry  # as in _holds: the adapter need not be imported
    adapter = adapters.get(domain, op, *place)
    if adapter is None:
        return None
    edge = edge_at(adapters, domain, op, *place)
    writes = tuple(sorted({qualified(domain, op), *edge.writes}))
    return replace(edge, verdict=adapter.kind, writes=writes)


# -- solving -------------------------------------------------------------------------------------


def solved(adapters: Registry, domain: str, *, down: bool) -> dict[Implementation, Edge]:
    """Returns how each operator version of a domain is converted up or down; cached."""
    edges = adapters.solved.get((domain, down))
    if edges is None:
        end = 1 if down else schemas.latest(domain) or 1
        conversions = graph(adapters, domain, down=down)
        edges = adapters.solved[domain, down] = dict(solve(conversions, end, down=down))
    return edges


def graph(adapters: Registry, domain: str, *, down: bool) -> nx.DiGraph:
    """Returns the graph of operator versions, their conversions, and the resulting operators."""
    routes: nx.DiGraph = library().DiGraph()
    for op in schemas.operators(domain):
        for schema in schemas.history(domain, op):
            here = (domain, op, schema.since)
            routes.add_node(here)
            boundary = _boundary(domain, op, schema.since, down=down)
            if boundary is not None:
                edge = edge_at(adapters, domain, op, *boundary)
                routes.add_edge(here, (here, edge))
                for name in edge.followed(domain, op):
                    there = schemas.schema(domain, name, edge.to)
                    if there is not None:
                        routes.add_edge((here, edge), (domain, name, there.since))
    return routes


def table_of(adapters: Registry) -> str:
    """Returns the plan table for all operators of ONNX's domains, as text.

    The last lines are the rewrites at the same version, which apply to every version of an
    operator.
    """
    lines = []
    for domain in sorted(schemas.known_domains().intersection(versions.DOMAINS)):
        for down in (True, False):
            direction = "down" if down else "up"
            for (_, op, since), edge in sorted(solved(adapters, domain, down=down).items()):
                lines.append(f"{domain or '-'} {op} {since} {direction} {edge}")
    for (domain, op, start, to), _ in adapters:
        if (start, to) in FORMS:
            form = form_edge(adapters, domain, op, (start, to))
            lines.append(f"{domain or '-'} {op} {start} form {form}")
    return "\n".join([*lines, ""])
