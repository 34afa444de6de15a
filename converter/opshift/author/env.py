# SPDX-License-Identifier: Apache-2.0
"""Defines environments (Env) through which adapters and rules read facts about a graph."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from opshift.author.bounds import Bounds
from opshift.author.node import Env, TypePart
from opshift.model.arrays import Array
from opshift.model.scope import Scope
from opshift.opsets.schemas import Schema
from opshift.protos import ModelProto, NodeProto, TypeProto

_Method = TypeVar("_Method", bound=Callable[..., Any])


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


def forwarded(method: _Method) -> _Method:
    """Returns a method that calls the same method of another environment."""

    def forward(self: Delegating, *details: Any) -> Any:
        return getattr(self.env, method.__name__)(*details)

    return cast(_Method, forward)


class Delegating(Env):
    """An environment that forwards each request to another environment."""

    def __init__(self, env: Env) -> None:
        self.env = env

    type = forwarded(Env.type)
    dims = forwarded(Env.dims)
    constant = forwarded(Env.constant)
    bounds = forwarded(Env.bounds)
    why_dynamic = forwarded(Env.why_dynamic)
    producer = forwarded(Env.producer)
    use_rank = forwarded(Env.use_rank)
    claimed_dims = forwarded(Env.claimed_dims)
    possible_types = forwarded(Env.possible_types)
    rare_types = forwarded(Env.rare_types)
    is_computed = forwarded(Env.is_computed)
    is_weight = forwarded(Env.is_weight)
    is_same = forwarded(Env.is_same)
    is_read = forwarded(Env.is_read)
    is_call = forwarded(Env.is_call)
    load = forwarded(Env.load)
    rules = forwarded(Env.rules)
    survey = forwarded(Env.survey)
    graph = forwarded(Env.graph)
    inside = forwarded(Env.inside)
