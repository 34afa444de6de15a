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
        known: dict[str, str] = {"": ""}
        made = Made(carried=frozenset())
        for token, (content, tensor) in self.constants.items():
            placed = asker.constant(root, content, lambda tensor=tensor: tensor)  # type: ignore[misc]
            known[token] = placed.name
            made.constants[placed.name] = placed

        def name_of(token: str) -> str:
            if token not in known:
                if token in self.hints:
                    known[token] = asker.fresh(self.hints[token])
                else:
                    known[token] = binding.place(token)[1]
            return known[token]

        for one in self.nodes:
            node = NodeProto.FromString(one.raw)
            node.input.extend(map(name_of, one.inputs))
            node.output.extend(map(name_of, one.outputs))
            if one.name:
                node.name = filled(one.name, binding.meaning)
            made.add(node)
        made.carrier = None if self.carrier is None else made.nodes[self.carrier]
        made.approximations += [filled(one, binding.meaning) for one in self.approximations]
        made.assumptions |= self.assumptions
        made.missed |= self.missed
        made.ops |= self.ops
        if self.unread is not None:
            made.unread = filled(self.unread, binding.meaning)
        return made


Leaf: TypeAlias = Kept | RefusedLeaf | Template


def template_of(made: Made, crossing: RecordingCrossing, binding: NodeTokens) -> Template:
    """Returns the nodes that an adapter wrote, as a template with placeholders for names."""
    if made.carried or any(map(holds_graphs, made.nodes)):
        raise Untraceable
    nodes = tuple(map(_without_names, made.nodes))
    read = {token for node in nodes for token in node.inputs if token}
    named = read.union(token for node in nodes for token in node.outputs if token)
    for token in named - crossing.hints.keys() - crossing.constants.keys():
        # raises for an unknown name; the adapter's bug is reported without a record
        binding.place(token)
    carriers = [i for i, node in enumerate(made.nodes) if node is made.carrier]
    return Template(
        nodes,
        carriers[0] if carriers else None,
        crossing.hints,
        crossing.constants,
        tuple(made.approximations),
        frozenset(made.assumptions),
        frozenset(made.missed),
        frozenset(made.ops),
        made.unread,
        any(is_value(token) for token in read.difference(binding.inputs)),
    )


def _without_names(node: NodeProto) -> WrittenNode:
    bare = NodeProto()
    bare.CopyFrom(node)
    bare.ClearField("input")
    bare.ClearField("output")
    bare.ClearField("name")
    return WrittenNode(bare.SerializeToString(), node.name, tuple(node.input), tuple(node.output))
