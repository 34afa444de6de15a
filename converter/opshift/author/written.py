# SPDX-License-Identifier: Apache-2.0
"""Stores the nodes that one adapter call has written, and finds facts about their values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import field
from typing import Protocol

from opshift.assumptions import Assumption
from opshift.author.bounds import Bounds, of_constant
from opshift.author.env import Delegating, ModelEnv, forwarded
from opshift.author.inference import infer_node
from opshift.author.infix import Writer
from opshift.author.node import Node, TypePart
from opshift.errors import AdapterBug
from opshift.model.arrays import Array, to_array
from opshift.model.rename import rename
from opshift.model.scope import Root, tensor_type
from opshift.model.walk import reads
from opshift.opsets import schemas
from opshift.protos import NodeProto, TensorProto, TypeProto
from opshift.records import dataclass


class Versions(Protocol):
    """The versions at which a step writes nodes."""

    def version(self, root: Root, domain: str) -> int: ...


@dataclass(slots=True)
class Made:
    """The nodes that one adapter call wrote, their constants, and the permissions they need."""

    nodes: list[NodeProto] = field(default_factory=list)
    makers: dict[str, NodeProto] = field(default_factory=dict)  # the node that computes each value
    equal: dict[Hashable, str] = field(default_factory=dict)  # the results of nodes, by content
    constants: dict[str, TensorProto] = field(default_factory=dict)
    held: dict[str, Array] = field(default_factory=dict)  # of Constant nodes, in a function
    approximations: list[str] = field(default_factory=list)
    assumptions: set[Assumption] = field(default_factory=set)  # assumptions that the nodes rely on
    missed: set[Assumption] = field(default_factory=set)  # would shorten the result
    carrier: NodeProto | None = None  # the first `op.same`, which keeps the subgraphs of the node
    carried: frozenset[str] = frozenset()
    ops: set[str] = field(default_factory=set)
    inlined: set[str] = field(default_factory=set)  # the names of inlined graphs
    unread: str | None = None  # set if the node must be removed: the reason if it is still read

    def add(self, node: NodeProto) -> None:
        self.nodes.append(node)
        self.makers.update(dict.fromkeys(node.output, node))

    def drop_idle(self, results: Collection[str] = ()) -> None:
        """Removes unread constants that the adapter wrote as nodes."""
        if not self.held:
            return
        read, used = set(results), list[NodeProto]()
        for node in reversed(self.nodes):
            if node.output[0] not in self.held or node.output[0] in read:
                used.append(node)
                read.update(reads(node))
        self.nodes[:] = reversed(used)
        self.makers = {name: node for node in self.nodes for name in node.output}

    def clear(self) -> None:
        """Discards the nodes that were written so far."""
        self.nodes.clear()
        self.makers.clear()
        self.equal.clear()

    def rename(self, names: Mapping[str, str]) -> None:
        """Renames values that the nodes write or read."""
        for node in self.nodes:
            rename(node, names)
        self.makers = {name: node for node in self.nodes for name in node.output}
        self.equal.clear()


class MadeEnv(Delegating, ModelEnv):
    """An environment that searches the nodes of a Builder, of outer Builders, and of the model.

    The environment refers to the Builder weakly, so that memory is freed as soon as a node is
    converted.
    """

    env: ModelEnv
    layout_of = forwarded(ModelEnv.layout_of)
    length_symbol = forwarded(ModelEnv.length_symbol)
    types_alone = forwarded(ModelEnv.types_alone)

    def __init__(
        self, crossing: Versions, model: ModelEnv, made: Made, outer: MadeEnv | None
    ) -> None:
        super().__init__(model)
        self.scope = model.scope
        self.crossing = crossing
        self.made = made
        self.outer = outer
        self.depth = outer.depth + 1 if outer is not None else 0
        self.written_by: Callable[[], Writer | None] = lambda: None  # a weak reference
        self.types: dict[str, TypeProto | None] = {}  # types of the values that the nodes compute
        self.writing: tuple[NodeProto, int] | None = None  # a node being converted down, its opset
        self._ranks_used: set[str] = set()

    @property
    def builder(self) -> Writer:
        writer = self.written_by()
        if writer is None:
            raise AdapterBug("a value is used after the adapter that it belongs to has returned")
        return writer

    def type(self, name: str, part: TypePart = TypePart.ALL) -> TypeProto | None:
        env: MadeEnv | None = self
        while env is not None:
            if name in env.types:
                return env.types[name]
            env = env.outer
        if (node := self._maker(name)) is not None:
            self._follow(node)
            return self._keep(name, self._infer(node).get(name))
        if self.writing is not None and self._is_later(name):
            return self._keep(name, infer_node(self.writing[0], self, self.writing[1]).get(name))
        if name in self.made.constants:
            return self._keep(name, tensor_type(self.made.constants[name]))
        return self.env.type(name, part)

    def _keep(self, name: str, proto: TypeProto | None) -> TypeProto | None:
        self.types[name] = proto
        return proto

    def _follow(self, node: NodeProto) -> None:
        """Infers the types of a node's inputs without recursion, because chains may be long."""
        waiting, followed = [*node.input], set[str]()
        while waiting:
            name = waiting[-1]
            maker = self._maker(name) if name and name not in self.types else None
            if maker is not None and name not in followed:
                followed.add(name)
                waiting += maker.input
                continue
            if maker is not None:
                self.type(name)
            waiting.pop()

    def _infer(self, node: NodeProto) -> dict[str, TypeProto]:
        version = self.crossing.version(self.scope.root, schemas.normal(node.domain))
        return infer_node(node, self, version)

    def use_rank(self, name: str) -> None:
        """Records the model values whose ranks determine the rank of a new value."""
        waiting = [name]
        while waiting:
            name = waiting.pop()
            if name in self._ranks_used:
                continue
            self._ranks_used.add(name)
            node = self._maker(name)
            if node is not None:
                waiting += filter(None, node.input)
            elif name not in self.made.constants:
                self.env.use_rank(name)

    def _maker(self, name: str) -> NodeProto | None:
        env: MadeEnv | None = self
        while env is not None:
            if name in env.made.makers:
                return env.made.makers[name]
            env = env.outer
        return None

    def is_read(self, name: str) -> bool:
        return self._is_later(name) or self.env.is_read(name)

    def _is_later(self, name: str) -> bool:
        """Returns whether a value is an output of the node that is being converted down."""
        return self.writing is not None and name in self.writing[0].output

    def is_computed(self, name: str) -> bool:
        return self._written(name) is not None or self.env.is_computed(name)

    def producer(self, name: str) -> Node | None:
        node = self.env.producer(name)  # the inputs of this node come from the same operators
        return None if node is None else Node(node.proto, node.schema, self)

    def constant(self, name: str) -> Array | None:
        tensor = self._written(name)
        return self.env.constant(name) if tensor is None else tensor

    def tensor(self, name: str) -> TensorProto | None:
        constant = self.made.constants.get(name)
        return super().tensor(name) if constant is None else constant

    def bounds(self, name: str) -> Bounds | None:
        tensor = self._written(name)
        return self.env.bounds(name) if tensor is None else of_constant(tensor)

    def _written(self, name: str) -> Array | None:
        """Returns the value of a constant that this adapter call wrote."""
        tensor = self.made.constants.get(name)
        return self.made.held.get(name) if tensor is None else to_array(tensor)
