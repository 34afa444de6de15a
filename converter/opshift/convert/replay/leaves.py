# SPDX-License-Identifier: Apache-2.0
"""The results that a record can have: a node stays, is refused, or is replaced."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeAlias

from opshift.assumptions import Assumption
from opshift.author.written import Made
from opshift.codes.refusals import Why
from opshift.convert.replay.binding import NodeTokens, filled, is_value
from opshift.convert.replay.comparable import Untraceable
from opshift.convert.replay.recorder import RecordingCrossing
from opshift.errors import Refusal
from opshift.model.walk import holds_graphs
from opshift.protos import NodeProto, TensorProto
from opshift.records import dataclass


@dataclass(frozen=True, slots=True)
class Kept:
    """The node stays unchanged."""


@dataclass(frozen=True, slots=True)
class RefusedLeaf:
    """The node is refused. `detail` has placeholders for names."""

    why: Why
    detail: str
    hints: Mapping[str, str]  # hints for the new names in `detail`

    def refusal(self, binding: NodeTokens) -> Refusal:
        """Returns the refusal with the names around one node."""

        def meaning(token: str) -> str:
            if token in self.hints:
                return binding.asker.fresh(self.hints[token])
            return binding.meaning(token)

        return Refusal(self.why, filled(self.detail, meaning))


@dataclass(frozen=True, slots=True)
class WrittenNode:
    """A new node without names, and the placeholders for its names."""

    raw: bytes
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Template:
    """The nodes and constants that replace a node, and the options that the caller must set."""

    nodes: tuple[WrittenNode, ...]
    carrier: int | None
    hints: dict[str, str]
    constants: dict[str, tuple[Hashable, TensorProto]]
    approximations: tuple[str, ...]
    assumptions: frozenset[Assumption]
    missed: frozenset[Assumption]
    ops: frozenset[str]
    unread: str | None
    reaches: bool  # whether a new node reads a value that the old node does not read

    def made(self, binding: NodeTokens) -> Made:
        """Returns the new nodes, with the names around one node of a model."""
        asker, root = binding.asker, binding.scope.root
        names: dict[str, str] = {"": ""}
        replacement = Made(carried=frozenset())
        for token, (content, tensor) in self.constants.items():
            placed = asker.constant(root, content, lambda tensor=tensor: tensor)  # type: ignore[misc]
            names[token] = placed.name
            replacement.constants[placed.name] = placed

        def name_of(token: str) -> str:
            if token not in names:
                if token in self.hints:
                    names[token] = asker.fresh(self.hints[token])
                else:
                    names[token] = binding.place(token)[1]
            return names[token]

        for new_node in self.nodes:
            node = NodeProto.FromString(new_node.raw)
            node.input.extend(map(name_of, new_node.inputs))
            node.output.extend(map(name_of, new_node.outputs))
            if new_node.name:
                node.name = filled(new_node.name, binding.meaning)
            replacement.add(node)
        replacement.carrier = None if self.carrier is None else replacement.nodes[self.carrier]
        replacement.approximations += [
            filled(approximation, binding.meaning) for approximation in self.approximations
        ]
        replacement.assumptions |= self.assumptions
        replacement.missed |= self.missed
        replacement.ops |= self.ops
        if self.unread is not None:
            replacement.unread = filled(self.unread, binding.meaning)
        return replacement


Leaf: TypeAlias = Kept | RefusedLeaf | Template


def template_of(replacement: Made, crossing: RecordingCrossing, binding: NodeTokens) -> Template:
    """Returns the nodes that an adapter wrote, as a template with placeholders for names."""
    if replacement.carried or any(map(holds_graphs, replacement.nodes)):
        raise Untraceable
    nodes = tuple(map(_without_names, replacement.nodes))
    read = {token for node in nodes for token in node.inputs if token}
    named = read.union(token for node in nodes for token in node.outputs if token)
    for token in named - crossing.hints.keys() - crossing.constants.keys():
        # raises for an unknown name; the adapter's bug is reported without a record
        binding.place(token)
    carriers = [i for i, node in enumerate(replacement.nodes) if node is replacement.carrier]
    return Template(
        nodes,
        carriers[0] if carriers else None,
        crossing.hints,
        crossing.constants,
        tuple(replacement.approximations),
        frozenset(replacement.assumptions),
        frozenset(replacement.missed),
        frozenset(replacement.ops),
        replacement.unread,
        any(is_value(token) for token in read.difference(binding.inputs)),
    )


def _without_names(node: NodeProto) -> WrittenNode:
    bare = NodeProto()
    bare.CopyFrom(node)
    bare.ClearField("input")
    bare.ClearField("output")
    bare.ClearField("name")
    return WrittenNode(bare.SerializeToString(), node.name, tuple(node.input), tuple(node.output))
