# SPDX-License-Identifier: Apache-2.0
"""Defines environments (Env) through which adapters and rules read facts about a graph."""

from __future__ import annotations

import builtins
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from opshift.author.node import Env, Node, TypePart
from opshift.model.arrays import Array
from opshift.opsets.types import Dims
from opshift.protos import ModelProto, NodeProto, TensorProto, TypeProto

if TYPE_CHECKING:
    from opshift.author.bounds import Bounds
    from opshift.model.scope import Scope
    from opshift.opsets.schemas import Schema

_Rule = TypeVar("_Rule")


class ModelEnv(Env):
    """An environment that finds facts about the values of one graph and infers its nodes."""

    scope: Scope

    def layout_of(self, node: NodeProto, version: int | None) -> Schema | None:
        """Returns the schema of a node at the imported version or at another; None if unknown."""
        return self.scope.root.layout_of(node, version)

    @abstractmethod
    def length_symbol(self, name: str, axis: int) -> str:
        """Returns a symbol for a dimension whose length inference does not find."""

    @abstractmethod
    def types_alone(self, model: ModelProto) -> Mapping[str, TypeProto | None]:
        """Infers the types of the values of a model that has a single node."""


class TypesOnly(Env):
    """An environment with types and given constants only, for use between two runs of inference."""

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
        return f"only the type of {name!r} is known during inference"

    def use_rank(self, name: str) -> None:
        """Does nothing, because inference records which types come from declared types."""


class Delegating(Env):
    """An environment that forwards each request to another environment."""

    def __init__(self, env: Env) -> None:
        self.env = env

    def type(self, name: str, part: TypePart = TypePart.ALL) -> TypeProto | None:
        return self.env.type(name, part)

    def dims(self, name: str, kind: TypeProto) -> Dims:
        return self.env.dims(name, kind)

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
