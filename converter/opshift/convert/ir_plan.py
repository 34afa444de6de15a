# SPDX-License-Identifier: Apache-2.0
"""The plan of the IR version: one verdict for each kind of content that a later version brought.

Below the version that brought a feature, one verdict says what happens to it, and leads to every
feature that its older form has. A feature that is lowered without a planned edge is a bug.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeAlias

from opshift.convert.ir.features import BROUGHT, FEATURES, FUNCTIONS, METADATA, Feature
from opshift.convert.plan_table import IMPOSSIBLE, Edge
from opshift.errors import AdapterBug

LOWER, REMOVE, KEEP = "lower", "remove", "keep"

FeaturePlan: TypeAlias = "dict[Feature, Edge]"


def of_features(
    held: Iterable[Feature], *, rewrite: bool, drop: Collection[str], inline: bool
) -> FeaturePlan:
    """The plan for the content of a model, and for what steps may bring into it."""
    found: FeaturePlan = {}
    waiting = [*held, *BROUGHT]
    while waiting:
        feature = waiting.pop()
        if feature not in found:
            lowers = rewrite or (inline and feature is FUNCTIONS)
            verdict = _verdict(feature, drop, lowers=lowers)
            leads = tuple(one.says for one in feature.leads) if verdict == LOWER else ()
            found[feature] = Edge(feature.ir, feature.ir - 1, verdict, False, leads)
            waiting += feature.leads if verdict == LOWER else ()
    return found


def _verdict(feature: Feature, drop: Collection[str], *, lowers: bool) -> str:
    if feature.drop in drop:
        return REMOVE
    if feature.drop == METADATA:
        return KEEP  # readers of older versions skip it
    if feature.drop or feature.lower is None:
        return IMPOSSIBLE
    return LOWER if lowers else KEEP


def due(plan: FeaturePlan, to: int, *, rewrite: bool, inline: bool) -> list[Feature]:
    """The features that a plan lowers for an IR version, in their order."""
    verdicts = {REMOVE, LOWER} if rewrite else {REMOVE}
    own = [one for one in FEATURES if one in plan and one.ir > to and plan[one].verdict in verdicts]
    first = [FUNCTIONS] if inline and FUNCTIONS in plan else []
    return list(dict.fromkeys([*first, *own]))


def require_planned(plan: FeaturePlan, present: Iterable[Feature]) -> None:
    """Raises if the model has content that the plan does not contain."""
    for feature in present:
        if feature not in plan:
            raise AdapterBug(
                f"the plan has no step IR {feature.ir}->{feature.ir - 1} for {feature.says},"
                " because the model did not have it before; an adapter must not write it"
            )


def dead_ends(plan: FeaturePlan, present: Iterable[Feature]) -> list[str]:
    """A description of the content that no verdict brings to an older IR version."""
    edges = [(feature, plan[feature]) for feature in present if feature in plan]
    return [f"{one.says}, IR {edge.start}->{edge.to}" for one, edge in edges if edge.dead]
