# SPDX-License-Identifier: Apache-2.0
"""Records what the conversion of a quotient did for each class, and what its adapters asked."""

from __future__ import annotations

import re
from dataclasses import field
from typing import Any, TypeAlias

from opshift.convert.change import Rewritten
from opshift.convert.classes.facets import EXACT, PROVED, VARIABLE, Facet
from opshift.model.scope import Place, Root, Scope
from opshift.model.walk import graphs_of
from opshift.protos import NodeProto
from opshift.records import dataclass

Boundary: TypeAlias = tuple[int, str, int, int]  # the number of a step, its domain and versions
Order: TypeAlias = tuple[Any, ...]  # where a node is in the index, with a hole for its row

UNPROVED = "a type that is not proved"
INEXACT = "a type of which more may be known"
INEXACT_LENGTH = "a length of which more may be known"
UNPROVED_RANK = "a rank that is not proved"
UNFOLDED = "a value that may be constant"
MEETING_CASTS = "two Casts that meet"
VAGUE = frozenset((UNPROVED, INEXACT, INEXACT_LENGTH, UNPROVED_RANK, UNFOLDED))
"""What lacks where the facts about the whole model may tell more."""

ROW = (-1,)  # the place of a node that no step has written
INSIDE: Order = ()  # the place of a node in a graph that a step has written
_EXTERNAL = re.compile(r"k(\d+)([io])(\d+)")
_NEIGHBOUR = re.compile(r"k(\d+)[io]\d+(_\d+)*")


def input_name(number: int, position: int) -> str:
    """The name in the quotient of an input of a class."""
    return f"k{number}i{position}"


def output_name(number: int, position: int) -> str:
    """The name in the quotient of an output of a class."""
    return f"k{number}o{position}"


def external(name: str) -> tuple[int, str, int] | None:
    """The class, `i` or `o`, and the position that a name of the quotient stands for."""
    found = _EXTERNAL.fullmatch(name)
    return (int(found[1]), found[2], int(found[3])) if found else None


@dataclass(slots=True)
class Deeds:
    """The record of the steps for one class."""

    facets: dict[str, Facet]  # of each input and output by its name in the quotient
    kept: dict[tuple[Boundary, str], int] = field(default_factory=dict)
    rewritten: dict[tuple[Boundary, Rewritten], int] = field(default_factory=dict)
    placed: list[tuple[Order, bytes]] = field(default_factory=list)  # new constants
    renamed: bool = False  # whether the node became another operator
    asked_readers: bool = False
    beyond: str = ""  # why the class alone does not determine the answer

    @property
    def inputs(self) -> int:
        """How far all inputs may be trusted."""
        found = PROVED | EXACT | VARIABLE
        for name, facet in self.facets.items():
            known = external(name)
            if known is not None and known[1] == "i":
                found &= facet.trust
        return found


class ClassJournal:
    """The deeds for all classes, and the class that an adapter is looking at."""

    def __init__(self, facets: list[dict[str, Facet]]) -> None:
        self.deeds = [Deeds(known) for known in facets]
        self.owners: dict[tuple[int, int], int] = {}
        self.orders: dict[tuple[int, int], Order] = {}
        self.writers: dict[str, int] = {}  # the class that a new name was written for
        self.boundary: Boundary = (0, "", 0, 0)
        self.current: Deeds | None = None
        self.brought: set[str] = set()  # the element types that steps bring in

    def open(self, root: Root) -> None:
        """Files the nodes inside others, for the classes of those, in the order of the index."""
        paths: dict[int, tuple[int, ...]] = {id(root.top): ()}
        for scope in root.scopes:
            path = paths[id(scope)]
            first: dict[tuple[str, str], int] = {}
            for i, node in enumerate(scope.proto.node):
                start = first.setdefault((node.domain, node.op_type), i)
                owner = self.owner((scope, i))
                if owner is None:
                    continue
                if scope is not root.top:
                    self.orders[id(scope), i] = (-1, *path, start, 0, i)
                for j, (_, graph) in enumerate(graphs_of(node)):
                    inner = root.scope_of(graph)
                    paths[id(inner)] = (*path, start, 1, i, j) if path else (j,)
                    self._enter_all(inner, owner)

    def _enter_all(self, scope: Scope, number: int) -> None:
        for i, node in enumerate(scope.proto.node):
            self.owners[id(scope), i] = number
            self.writers.update(dict.fromkeys(filter(None, node.output), number))

    def deeds_of(self, node: NodeProto) -> Deeds | None:
        """The deeds for the class of a node that still stands."""
        for name in node.output:
            if (known := external(name)) is not None:
                return self.deeds[known[0]]
            if name in self.writers:
                return self.deeds[self.writers[name]]
        return None

    def owner(self, place: Place) -> int | None:
        """The class of a node."""
        scope, position = place
        key = (id(scope), position)
        if key not in self.owners:
            node = scope.node(position)
            known = next((found for name in node.output if (found := external(name))), None)
            if known is None:
                return None
            self.owners[key] = known[0]
            self.orders[key] = ROW
        return self.owners[key]

    def of(self, place: Place) -> Deeds | None:
        """The deeds for the class of a node."""
        number = self.owner(place)
        return None if number is None else self.deeds[number]

    def order(self, place: Place) -> Order:
        """The place of a node in the index."""
        return self.orders[id(place[0]), place[1]]

    def enter(self, place: Place, number: int, order: Order) -> None:
        """Notes a node that a step wrote."""
        key = (id(place[0]), place[1])
        self.owners[key], self.orders[key] = number, order
        for name in place[0].node(place[1]).output:
            if name and external(name) is None:
                self.writers[name] = number

    def enter_inside(self, place: Place, number: int) -> None:
        """Notes the nodes in the graphs of a node that a step wrote."""
        scope, position = place
        for _, graph in graphs_of(scope.node(position)):
            inner = scope.root.scope_of(graph)
            self._enter_all(inner, number)
            for i in range(len(inner.proto.node)):
                self.orders[id(inner), i] = INSIDE
                self.enter_inside((inner, i), number)

    def is_inside(self, place: Place) -> bool:
        """Whether a node comes from one that a step wrote into a graph."""
        order = self.order(place)
        while order and order[0] != ROW[0]:
            order = order[2]  # the place of the node that was replaced
        return order == INSIDE

    def facet(self, name: str) -> Facet | None:
        """What is known of a value outside of a class: its inputs, and what stands behind them."""
        found = _NEIGHBOUR.fullmatch(name)
        return self.deeds[int(found[1])].facets.get(name) if found else None

    def enter_neighbour(self, reader: str, position: int, facet: Facet) -> str:
        """The name of an input of the node that computes a value outside of a class."""
        found = _NEIGHBOUR.fullmatch(reader)
        assert found is not None
        name = f"{reader}_{position}"
        self.deeds[int(found[1])].facets[name] = facet
        return name

    def beyond(self, why: str, name: str = "") -> None:
        """The class at hand, or that with this value, does not tell what its adapter asks."""
        found = _NEIGHBOUR.fullmatch(name)
        deeds = self.deeds[int(found[1])] if found else self.current
        if deeds is not None and not deeds.beyond:
            deeds.beyond = why


def at(order: Order, row: int, first: int) -> Order:
    """The order of a node of one row, whose operator is that of an earlier row for the first time.

    The index has the nodes inside the nodes of an operator behind all nodes of it.
    """
    if order[0] == -1:
        return (-1, first, len(order) > 1, row, *order[1:])
    step, op, before, i = order
    return (step, op, at(before, row, first), i)
