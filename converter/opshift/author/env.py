# SPDX-License-Identifier: Apache-2.0
"""The questions that a node and its values ask about a model, without their answers."""

from __future__ import annotations

import builtins
import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from opshift.errors import AdapterBug
from opshift.model.arrays import Array, from_array
from opshift.opsets.types import Dims, dims_of
from opshift.protos import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto

if TYPE_CHECKING:
    from opshift.author.bounds import Bounds
    from opshift.author.builder import Builder
    from opshift.author.node import Node, Survey
    from opshift.model.scope import Scope
    from opshift.opsets.schemas import Schema

_Rule = TypeVar("_Rule")
_Answer = TypeVar("_Answer")


class TypePart(enum.Enum):
    """The part of a type that an adapter reads."""

    ELEMENT = "element"
    RANK = "rank"
    ALL = "all"


class Env(ABC):
    """Answers questions about the values that a node can see."""

    depth = -1  # the number of unfinished graphs around it

    @property
    def builder(self) -> Builder:
        """The Builder that writes in this scope."""
        raise AdapterBug(
            "only values of the node that the adapter replaces have Python's operators"
        )

    @abstractmethod
    def type(self, name: str, part: TypePart = TypePart.ALL) -> TypeProto | None:
        """The type of a value, of which only a part may be read."""

    def dims(self, name: str, found: TypeProto) -> Dims:
        """The dimensions of a tensor, as an adapter may read them."""
        return dims_of(found)

    @abstractmethod
    def constant(self, name: str) -> Array | None:
        """The value of a constant, which is the same for all inputs; else None."""

    def tensor(self, name: str) -> TensorProto | None:
        """A constant as a tensor of that name."""
        value = self.constant(name)
        return None if value is None else from_array(value, name)

    @abstractmethod
    def bounds(self, name: str) -> Bounds | None:
        """The bounds of an integer value, which hold for all inputs; else None."""

    @abstractmethod
    def why_dynamic(self, name: str) -> str:
        """The reason why a value is not a constant."""

    @abstractmethod
    def producer(self, name: str) -> Node | None:
        """The node that computes a value; None for the call of a function or a malformed node."""

    @abstractmethod
    def use_rank(self, name: str) -> None:
        """Adds a note to the report if the rank of a value comes only from a declaration."""

    def claimed_dims(self, name: str, dims: Dims) -> Dims:
        """Dimensions completed by a declaration; the report then names the value."""
        return dims

    # -- questions that only nodes of a model ask ----------------------------------------------

    def possible_types(self) -> frozenset[str]:
        """Every element type that can occur in the model."""
        raise NotImplementedError

    def rare_types(self) -> frozenset[str]:
        """The element types in the model that not every operator accepts."""
        raise NotImplementedError

    def is_computed(self, name: str) -> bool:
        """Whether a node of the model computes a value."""
        raise NotImplementedError

    def is_weight(self, name: str) -> bool:
        """Whether a value has too many elements to be written as a new constant."""
        raise NotImplementedError

    def is_same(self, name: str, other: str) -> bool:
        """Whether two names stand for one value of the model."""
        return name == other

    def is_read(self, name: str) -> bool:
        """Whether a node or an output reads a value."""
        raise NotImplementedError

    def is_call(self, node: NodeProto) -> bool:
        """Whether a node calls a function of the model, which may have the name of an operator."""
        raise NotImplementedError

    def load(self, tensor: TensorProto) -> Array:
        """The value of a tensor in an attribute."""
        raise NotImplementedError

    def survey(self, look: Survey[_Answer]) -> _Answer:
        """What a function finds that looks at all nodes around."""
        raise NotImplementedError

    def graph(self, graph: GraphProto) -> GraphProto:
        """A copy of a subgraph, with its nodes in order."""
        raise NotImplementedError

    def inside(self, graph: GraphProto) -> Env:
        """The questions about the values of a subgraph."""
        raise NotImplementedError

    def rules(self, kind: builtins.type[_Rule]) -> Mapping[tuple[str, str], _Rule]:
        """The declarations of one kind about operators."""
        raise NotImplementedError


class ModelEnv(Env):
    """Answers questions about the values of a graph, whose nodes can be inferred."""

    scope: Scope

    def layout_of(self, node: NodeProto, version: int | None) -> Schema | None:
        """The schema of a node, if stated, at the version imported now or at another."""
        return self.scope.root.layout_of(node, version)

    @abstractmethod
    def length_symbol(self, name: str, axis: int) -> str:
        """The symbol of a length that inference does not know."""

    @abstractmethod
    def types_alone(self, model: ModelProto) -> Mapping[str, TypeProto | None]:
        """The types of the values of a model that holds one node."""


class TypesOnly(Env):
    """An Env of types and of constants that no node computes: between two passes of inference."""

    def __init__(
        self,
        types: Mapping[str, TypeProto | None],
        constants: Callable[[str], Array | None] = lambda name: None,
    ) -> None:
        self.types = types
        self.constants = constants

    def type(self, name: str, part: TypePart = TypePart.ALL) -> TypeProto | None:
        return self.types.get(name)

    def constant(self, name: str) -> Array | None:
        return self.constants(name)

    def bounds(self, name: str) -> Bounds | None:
        return None

    def producer(self, name: str) -> Any:
        return None

    def why_dynamic(self, name: str) -> str:
        return "only types are looked at"

    def use_rank(self, name: str) -> None:
        """Does nothing: inference tracks which types come from declarations."""


class Delegating(Env):
    """An Env that passes each question on to another one."""

    def __init__(self, env: Env) -> None:
        self.env = env

    def type(self, name: str, part: TypePart = TypePart.ALL) -> TypeProto | None:
        return self.env.type(name, part)

    def dims(self, name: str, found: TypeProto) -> Dims:
        return self.env.dims(name, found)

    def constant(self, name: str) -> Array | None:
        return self.env.constant(name)

    def bounds(self, name: str) -> Bounds | None:
        return self.env.bounds(name)

    def why_dynamic(self, name: str) -> str:
        return self.env.why_dynamic(name)

    def producer(self, name: str) -> Node | None:
        return self.env.producer(name)

    def use_rank(self, name: str) -> None:
        self.env.use_rank(name)

    def claimed_dims(self, name: str, dims: Dims) -> Dims:
        return self.env.claimed_dims(name, dims)

    def possible_types(self) -> frozenset[str]:
        return self.env.possible_types()

    def rare_types(self) -> frozenset[str]:
        return self.env.rare_types()

    def is_computed(self, name: str) -> bool:
        return self.env.is_computed(name)

    def is_weight(self, name: str) -> bool:
        return self.env.is_weight(name)

    def is_same(self, name: str, other: str) -> bool:
        return self.env.is_same(name, other)

    def is_read(self, name: str) -> bool:
        return self.env.is_read(name)

    def is_call(self, node: NodeProto) -> bool:
        return self.env.is_call(node)

    def load(self, tensor: TensorProto) -> Array:
        return self.env.load(tensor)

    def rules(self, kind: builtins.type[_Rule]) -> Mapping[tuple[str, str], _Rule]:
        return self.env.rules(kind)
