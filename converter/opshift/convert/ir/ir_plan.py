# SPDX-License-Identifier: Apache-2.0
"""Plans an IR version: keeps, rewrites or refuses each kind of content of a later version.

The plan says how each kind of content is written below the IR version that introduced it. Content
without an entry in the plan is a bug. If the IR version rises, all content stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeAlias

from opshift.convert.ir.features import BROUGHT, FEATURES, FUNCTIONS, METADATA, Feature
from opshift.errors import AdapterBug

LOWER, REMOVE, KEEP, IMPOSSIBLE = "lower", "remove", "keep", "impossible"

FeaturePlan: TypeAlias = "dict[Feature, str]"  # what happens to each kind of content


def of_features(
    held: Iterable[Feature], *, rewrite: bool, drop: Collection[str], inline: bool
) -> FeaturePlan:
    """Returns the plan for the content of a model, and for content that steps may add."""
    plan: FeaturePlan = {}
    waiting = [*held, *BROUGHT]
    while waiting:
        feature = waiting.pop()
        if feature not in plan:
            lowers = rewrite or (inline and feature is FUNCTIONS)
            plan[feature] = _verdict(feature, drop, lowers=lowers)
            waiting += feature.leads if plan[feature] == LOWER else ()
    return plan


def _verdict(feature: Feature, drop: Collection[str], *, lowers: bool) -> str:
    """Returns what happens to one kind of content below its IR version, with these options."""
    if feature.drop in drop:
        return REMOVE
    if feature.drop == METADATA:  # readers of older versions ignore it
        return KEEP
    if feature.drop or feature.lower is None:
        return IMPOSSIBLE
    return LOWER if lowers else KEEP


def due(plan: FeaturePlan, to: int, *, rewrite: bool, inline: bool) -> list[Feature]:
    """Returns the kinds of content that a plan rewrites or removes for an IR version, in order."""
    verdicts = {REMOVE, LOWER} if rewrite else {REMOVE}
    planned = [
        feature
        for feature in FEATURES
        if feature in plan and feature.ir > to and plan[feature] in verdicts
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
    return [
        f"{feature.says}, IR {feature.ir}->{feature.ir - 1}"
        for feature in present
        if plan.get(feature) == IMPOSSIBLE
    ]
