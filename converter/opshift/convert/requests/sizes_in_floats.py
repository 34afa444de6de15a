# SPDX-License-Identifier: Apache-2.0
"""Keeps the type of floats that are computed from sizes, if the new type rounds whole numbers."""

from __future__ import annotations

from opshift.author.present_types import TYPE_ATTRIBUTES
from opshift.convert.requests.type_groups import named_type
from opshift.convert.requests.typed_values import TypeChoice, changes_of
from opshift.convert.state import State
from opshift.model.names import Owned
from opshift.model.scope import Scope
from opshift.opsets.elements import T
from opshift.opsets.type_pairs import Change
from opshift.protos import NodeProto

LARGE = 1 << 24  # larger sizes do not occur, and float32 represents all integers up to this size


def keep(state: State, choice: TypeChoice) -> None:
    """Keeps the type of floats that depend only on sizes and constants."""
    exact = {
        start: 1 << T(choice.types[start]).fraction.bits
        for start, change in changes_of(choice.types).items()
        if change is Change.ROUNDS
    }
    ends = {start: end for start, end in exact.items() if end < LARGE}
    found = set[Owned]()
    for scope in state.document.scopes() if ends else ():
        for position in scope.sorted_positions():
            node = scope.node(position)
            for name in node.output:
                end = ends.get(choice.kinds.get((scope, name), 0))
                if end is not None and _follows(state, choice, scope, node, found, end):
                    found.add((scope, name))
                    to = named_type(choice.types[choice.kinds[scope, name]])
                    why = f"it may be a size above {end}, and {to} rounds some integers above {end}"
                    choice.stays.setdefault((scope, name), why)


def _follows(
    state: State, choice: TypeChoice, scope: Scope, node: NodeProto, found: set[Owned], end: int
) -> bool:
    """Returns whether a node computes floats from sizes that may be larger than `end`."""
    given = [(scope.owner(name), name) for name in node.input if name]
    if any(one in found for one in given):
        others = (one for one in given if one in choice.kinds and one not in found)
        return all(_is_constant(state, *one) for one in others)
    if len(given) != 1 or not any(one.name in TYPE_ATTRIBUTES for one in node.attribute):
        return False
    bounds = state.facts.bounds(scope, given[0][1])
    return bounds is not None and bounds.highest > end and not _is_constant(state, *given[0])


def _is_constant(state: State, owner: Scope | None, name: str) -> bool:
    if owner is None or name in owner.initializers:
        return owner is not None
    return state.facts.constant(owner, name) is not None
