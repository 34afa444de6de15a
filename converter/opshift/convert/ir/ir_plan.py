# SPDX-License-Identifier: Apache-2.0
"""Plans an IR version: keeps, rewrites or refuses each kind of content of a later version.

Each entry of the plan (an `Edge`) says how one kind of content is written below the IR version that
introduced it. Content without an entry in the plan is a bug. The shipped plan table contains these
entries too. If the IR version rises, all content stays.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from opshift.convert.ir.features import BROUGHT, FEATURES, FUNCTIONS, METADATA, Feature
from opshift.convert.plan_table import LAST, Edge, Implementation, library, shipped, solve
from opshift.errors import AdapterBug
from opshift.report import IMPOSSIBLE

if TYPE_CHECKING:
    import networkx as nx

LOWER, REMOVE, KEEP = "lower", "remove", "keep"
DOMAIN = "IR"  # the value in the table's column for the domain

FeaturePlan: TypeAlias = "dict[Feature, Edge]"


def of_features(
    held: Iterable[Feature], *, rewrite: bool, drop: Collection[str], inline: bool
) -> FeaturePlan:
    """Returns the plan for the content of a model, and for content that steps may add."""
    found: FeaturePlan = {}
    waiting = [*held, *BROUGHT]
    while waiting:
        feature = waiting.pop()
        if feature not in found:
            lowers = rewrite or (inline and feature is FUNCTIONS)
            found[feature] = _wanted(feature, drop, lowers=lowers)
            waiting += feature.leads if found[feature].verdict == LOWER else ()
    return found


def upward() -> FeaturePlan:
    """Returns the plan for a later IR version, for which all content stays."""
    return {feature: edge_of(feature, down=False) for feature in FEATURES}


def _wanted(feature: Feature, drop: Collection[str], *, lowers: bool) -> Edge:
    """Returns the plan for one kind of content, after the caller's options are applied."""
    edge = edge_of(feature, down=True)
    if feature.drop in drop:
        return replace(edge, verdict=REMOVE)
    return edge if lowers or edge.verdict != LOWER else replace(edge, verdict=KEEP, writes=())


def edge_of(feature: Feature, *, down: bool) -> Edge:
    """Returns the plan for one kind of content, from the shipped table if that is up to date."""
    edge = shipped(DOMAIN, feature.key, feature.ir, down)
    if edge is None or replace(edge, reach=0) != _bare(feature, down=down):
        edge = solved(down=down)[_implementation(feature)]
    return edge


def in_table(*, down: bool) -> bool:
    """Returns whether the shipped table contains the plan for each kind of content."""
    return all(shipped(DOMAIN, feature.key, feature.ir, down) is not None for feature in FEATURES)


def _bare(feature: Feature, *, down: bool) -> Edge:
    """Returns the plan for one kind of content, without the farthest reachable version."""
    if not down:
        return Edge(feature.ir, feature.ir, LAST, False, ())
    verdict = IMPOSSIBLE if feature.drop or feature.lower is None else LOWER
    verdict = KEEP if feature.drop == METADATA else verdict  # readers of older versions ignore it
    return Edge(
        feature.ir, feature.ir - 1, verdict, False, tuple(lead.key for lead in feature.leads)
    )


def _implementation(feature: Feature) -> Implementation:
    return DOMAIN, feature.key, feature.ir


# -- solving -------------------------------------------------------------------------------------


@functools.cache
def solved(*, down: bool) -> dict[Implementation, Edge]:
    """Returns the plan for each kind of content, for lower or for higher IR versions."""
    end = 1 if down else max(feature.ir for feature in FEATURES)
    return dict(solve(_graph(down=down), end, down=down))


def _graph(*, down: bool) -> nx.DiGraph:
    """Returns the graph of the kinds of content, their plans, and the content after a rewrite."""
    routes: nx.DiGraph = library().DiGraph()
    for feature in FEATURES:
        here, edge = _implementation(feature), _bare(feature, down=down)
        routes.add_node(here)
        if down:
            routes.add_edge(here, (here, edge))
            routes.add_edges_from(((here, edge), _implementation(lead)) for lead in feature.leads)
    return routes


def table() -> str:
    """Returns the plans for all kinds of content as lines of the shipped table."""
    lines = [
        f"{domain} {key} {ir} {'down' if down else 'up'} {edge}"
        for down in (True, False)
        for (domain, key, ir), edge in sorted(solved(down=down).items())
    ]
    return "\n".join([*lines, ""])


# -- following the plan --------------------------------------------------------------------------


def due(plan: FeaturePlan, to: int, *, rewrite: bool, inline: bool) -> list[Feature]:
    """Returns the kinds of content that a plan rewrites or removes for an IR version, in order."""
    verdicts = {REMOVE, LOWER} if rewrite else {REMOVE}
    planned = [
        feature
        for feature in FEATURES
        if feature in plan and feature.ir > to and plan[feature].verdict in verdicts
    ]
    first = [FUNCTIONS] if inline and FUNCTIONS in plan else []
    return list(dict.fromkeys([*first, *planned]))


def require_planned(plan: FeaturePlan, present: Iterable[Feature]) -> None:
    """Raises AdapterBug if the model has content that the plan does not contain."""
    for feature in present:
        if feature not in plan:
            raise AdapterBug(
                f"the plan cannot lower {feature.says} from IR {feature.ir} to {feature.ir - 1},"
                " because the source model does not have this content; an adapter must not write it"
            )


def dead_ends(plan: FeaturePlan, present: Iterable[Feature]) -> list[str]:
    """Returns a description of each content that cannot be rewritten for an older IR version."""
    edges = [(feature.says, plan[feature]) for feature in present if feature in plan]
    return [f"{says}, IR {edge.start}->{edge.to}" for says, edge in edges if edge.dead]
