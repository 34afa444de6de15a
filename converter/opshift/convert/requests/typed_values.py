# SPDX-License-Identifier: Apache-2.0
"""Records which values of a model change their element type, and which keep it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from opshift.convert.requests.type_groups import TypeGroup, named_type
from opshift.model.names import Owned
from opshift.model.scope import Place, Scope
from opshift.opsets.type_pairs import BY_NAMES, Change
from opshift.protos import NodeProto
from opshift.records import dataclass


@dataclass(slots=True)
class TypeChoice:
    """The values whose type a request may change, the groups of each node, and the decisions."""

    types: Mapping[int, int]
    kinds: dict[Owned, int] = field(default_factory=dict)
    groups: dict[Place, list[TypeGroup]] = field(default_factory=dict)
    # values that keep their type, with the reason
    stays: dict[Owned, str] = field(default_factory=dict)
    # graph inputs and outputs that change although inner nodes do not
    narrow_ends: set[Owned] = field(default_factory=set)
    solid: set[Owned] = field(default_factory=set)  # containers, which Cast does not accept
    not_run: str = ""  # why the test run gave no result
    small: list[Owned] = field(default_factory=list)  # constants with numbers that lose digits

    def changes(self, owner: Scope | None, name: str) -> bool:
        """Returns whether a value gets another element type."""
        return (owner, name) in self.kinds and (owner, name) not in self.stays

    def values(self, place: Place, group: TypeGroup) -> list[Owned]:
        """Returns the values in a group of inputs and outputs of one node."""
        scope, position = place
        node = scope.node(position)
        return [(scope.owner(name), name) for name in _names(group, node)]


def _names(group: TypeGroup, node: NodeProto) -> list[str]:
    read, given = list(node.input), list(node.output)
    return [*(read[at] for at in group.inputs), *(given[at] for at in group.outputs)]


def changes_of(types: Mapping[int, int]) -> dict[int, Change]:
    """Returns, for each change of an element type, its effect on numbers."""
    found = {}
    for start, to in types.items():
        pair = BY_NAMES.get((named_type(start), named_type(to)))
        assert pair is not None  # the request has only such pairs
        found[start] = pair.change
    return found
