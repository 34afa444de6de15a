# SPDX-License-Identifier: Apache-2.0
"""Finds the places that were rewritten between two models, by comparing only the models.

A value that both models compute has the same name in both. If only one of the models has a name, a
conversion removed or wrote this name. Therefore a rewritten place is a group of nodes that differ
between the two models. Inside a group, nodes are connected by names that only one model has; the
inputs and outputs of a group have names of both models.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import field

from networkx.utils import UnionFind

from opshift.model.imports import Versions, versions
from opshift.model.walk import Container, graphs_of, holds_graphs, reads, tops
from opshift.protos import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto
from opshift.protos.copies import copy_of
from opshift.records import dataclass

CONSTANT = "Constant"


@dataclass
class Body:
    """The nodes of a graph or function in one of the models, with the names that it defines."""

    container: Container
    imports: Versions
    parent: Body | None = None
    nodes: list[NodeProto] = field(default_factory=list)
    writers: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.nodes = list(self.container.node)
        self.writers = {name: i for i, n in enumerate(self.nodes) for name in n.output if name}

    @functools.cached_property
    def tensors(self) -> dict[str, TensorProto | NodeProto]:
        """Returns the initializers and Constant nodes, by name."""
        tensors: dict[str, TensorProto | NodeProto] = {
            node.output[0]: node for node in self.nodes if node.op_type == CONSTANT and node.output
        }
        if isinstance(self.container, GraphProto):
            tensors.update((tensor.name, tensor) for tensor in self.container.initializer)
        return tensors

    def constant(self, name: str) -> TensorProto | NodeProto | None:
        """Returns the initializer or Constant node of a name in this scope."""
        tensor = self.tensors.get(name)
        if tensor is not None or name in self.writers or self.parent is None:
            return tensor
        return self.parent.constant(name)


@dataclass(frozen=True, slots=True)
class RewrittenPlace:
    """A rewritten place: the removed and the written nodes, in order."""

    before: Body
    after: Body
    removed: tuple[NodeProto, ...]
    written: tuple[NodeProto, ...]


def rewrites(before: ModelProto, after: ModelProto) -> Iterator[RewrittenPlace]:
    """Yields every place in which the second model is rewritten from the first model."""
    tops_of_after = {_key(top, i): (top, _imports(after, top)) for i, top in enumerate(tops(after))}
    for number, top in enumerate(tops(before)):
        counterpart = tops_of_after.get(_key(top, number))
        if counterpart is not None:
            yield from _inside(Body(top, _imports(before, top)), Body(*counterpart))


def _key(top: Container, number: int) -> tuple[object, ...]:
    """Returns a key by which a graph or function of one model is found in the other model."""
    if isinstance(top, FunctionProto):
        return (top.domain, top.name, top.overload)
    return (number if number == 0 else f"{top.name} of training",)


def _imports(model: ModelProto, top: Container) -> Versions:
    return versions(top if isinstance(top, FunctionProto) else model)


def _inside(before: Body, after: Body) -> Iterator[RewrittenPlace]:
    """Yields the rewritten places of two graphs, then those of their subgraphs."""
    groups = _Groups(before, after)
    yield from groups.found()
    for i, node in enumerate(before.nodes):
        if holds_graphs(node):
            twin = groups.twin(i)
            if twin is not None:
                yield from _nested(before, after, node, after.nodes[twin])


def _nested(before: Body, after: Body, old: NodeProto, new: NodeProto) -> Iterator[RewrittenPlace]:
    mine: dict[str, list[GraphProto]] = {}
    for name, graph in graphs_of(old):
        mine.setdefault(name, []).append(graph)
    for name, graph in graphs_of(new):
        if mine.get(name):
            first = Body(mine[name].pop(0), before.imports, before)
            yield from _inside(first, Body(graph, after.imports, after))


class _Groups:
    """The nodes that differ, merged into groups until each group is one rewritten place."""

    def __init__(self, before: Body, after: Body) -> None:
        self.sides = (before, after)
        self.kept = self._kept()
        self.joined: UnionFind[tuple[int, int]] = UnionFind()
        for side, (mine, other) in enumerate(((before, after), (after, before))):
            for i, node in enumerate(mine.nodes):
                if self._takes_part(side, i):
                    self._join_around(side, i, node, mine, other)

    def twin(self, number: int) -> int | None:
        """Returns the node of the second model that computes an output of this node."""
        before, after = self.sides
        return next((after.writers[n] for n in before.nodes[number].output if n in after.writers),
                    None)  # fmt: skip

    def _kept(self) -> tuple[set[int], set[int]]:
        """Returns the nodes, apart from their subgraphs, that are equal in both models."""
        equal: tuple[set[int], set[int]] = (set(), set())
        for i, node in enumerate(self.sides[0].nodes):
            twin = self.twin(i)
            if twin is not None and _shell(node) == _shell(self.sides[1].nodes[twin]):
                equal[0].add(i)
                equal[1].add(twin)
        return equal

    def _takes_part(self, side: int, number: int) -> bool:
        """Returns whether a node is rewritten; constants that only one model has do not count."""
        if number in self.kept[side]:
            return False
        node, counterpart = self.sides[side].nodes[number], self.sides[1 - side]
        return node.op_type != CONSTANT or any(name in counterpart.writers for name in node.output)

    def _join_around(
        self, side: int, number: int, node: NodeProto, mine: Body, counterpart: Body
    ) -> None:
        self.joined.union((side, number))
        for name in filter(None, reads(node)):
            writer = mine.writers.get(name)
            if writer is None or name in counterpart.writers or not self._takes_part(side, writer):
                continue
            self.joined.union((side, number), (side, writer))
        for name in node.output:
            twin = counterpart.writers.get(name)
            if twin is not None and self._takes_part(1 - side, twin):
                self.joined.union((side, number), (1 - side, twin))

    def found(self) -> Iterator[RewrittenPlace]:
        """Yields the rewritten places in the order of the first node of each."""
        for members in sorted(map(sorted, self.joined.to_sets())):
            yield RewrittenPlace(*self.sides, *(self._nodes(members, side) for side in (0, 1)))

    def _nodes(self, members: Sequence[tuple[int, int]], side: int) -> tuple[NodeProto, ...]:
        return tuple(
            self.sides[side].nodes[number] for member_side, number in members if member_side == side
        )


def _shell(node: NodeProto) -> bytes:
    """Serializes a node without its subgraphs."""
    if not holds_graphs(node):
        return node.SerializeToString(deterministic=True)
    copy = copy_of(node)
    for attribute in copy.attribute:
        attribute.ClearField("g")
        attribute.ClearField("graphs")
    return copy.SerializeToString(deterministic=True)
