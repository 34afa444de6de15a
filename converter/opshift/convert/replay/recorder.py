# SPDX-License-Identifier: Apache-2.0
"""Passes a node with placeholders for names to an adapter, and records its questions."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Any, TypeVar

from opshift.assumptions import Assumption
from opshift.author.bounds import Bounds
from opshift.author.builder import Builder
from opshift.author.env import ModelEnv
from opshift.author.node import Env, Node, Result, Survey, TypePart
from opshift.convert.replay import comparable
from opshift.convert.replay.binding import NEVER, Asker, NodeTokens, is_value, placeholder, reason
from opshift.convert.replay.comparable import NoAnswer, Untraceable
from opshift.model.arrays import Array
from opshift.model.scope import Root
from opshift.opsets.types import LENGTH, Dims, dims_of
from opshift.protos import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto

_Rule = TypeVar("_Rule")
_Answer = TypeVar("_Answer")


class Recorder(ModelEnv):
    """Answers an adapter's questions about a node with placeholders for names.

    Each question and its answer is recorded once.
    """

    def __init__(self, binding: NodeTokens) -> None:
        self.binding = binding
        self.scope = binding.scope
        self.asked: dict[tuple[Any, ...], Any] = {}  # the questions in order, with their answers
        self.ranks_used: dict[str, None] = {}
        self.relied_on: tuple[str, ...] = ()  # the ranks on which the adapter's result depends

    def ask(self, *question: Any) -> Any:
        """Returns the answer to a question, and records both."""
        if question not in self.asked:
            answer = self.binding.answer(question)
            if answer is NEVER:
                raise NoAnswer
            self.asked[question] = answer
        return self.asked[question]

    def _ask_of(self, kind: str, name: str, *more: Any) -> Any:
        """Returns the recorded fact about a value of the model, or None for a new value."""
        return self.ask(kind, name, *more) if is_value(name) else None

    def type(self, name: str, part: TypePart = TypePart.ALL) -> TypeProto | None:
        return comparable.type_of(self._ask_of("type", name, part), part)

    def dims(self, name: str, kind: TypeProto) -> Dims:
        dims: Dims = self.ask("dims", name) if is_value(name) else dims_of(kind)
        return dims

    def claimed_dims(self, name: str, dims: Dims) -> Dims:
        claimed: Dims = self.ask("claimed", name) if is_value(name) else dims
        return claimed

    def constant(self, name: str) -> Array | None:
        answer = self._ask_of("constant", name)
        return None if answer is None else answer.array

    def bounds(self, name: str) -> Bounds | None:
        return comparable.bounds_of(self._ask_of("bounds", name))

    def why_dynamic(self, name: str) -> str:
        return reason(name) if is_value(name) else f"no node computes {name!r}"

    def producer(self, name: str) -> Node | None:
        answer = self._ask_of("producer", name)
        return None if answer is None else Node(answer.in_tokens, answer.schema, self)

    def use_rank(self, name: str) -> None:
        if is_value(name):
            self.ranks_used[name] = None

    def possible_types(self) -> frozenset[str]:
        return Present(self)

    def rare_types(self) -> frozenset[str]:
        answer: frozenset[str] = self.ask("rare")
        return answer

    def is_computed(self, name: str) -> bool:
        return bool(self._ask_of("fact", name, "is_computed"))

    def is_weight(self, name: str) -> bool:
        return bool(self._ask_of("fact", name, "is_weight"))

    def is_read(self, name: str) -> bool:
        return bool(self._ask_of("fact", name, "is_read"))

    def is_call(self, node: NodeProto) -> bool:
        return False  # records exclude calls and their neighbours

    def load(self, tensor: TensorProto) -> Array:
        return self.binding.asker.facts.weights.load(tensor)

    def survey(self, survey: Survey[_Answer]) -> _Answer:
        raise Untraceable

    def graph(self, graph: GraphProto) -> GraphProto:
        raise Untraceable

    def inside(self, graph: GraphProto) -> Env:
        raise Untraceable

    def rules(self, kind: builtins.type[_Rule]) -> Mapping[tuple[str, str], _Rule]:
        return self.binding.asker.adapters.rules(kind)  # type: ignore[type-var]

    def length_symbol(self, name: str, axis: int) -> str:
        return f"{LENGTH}{name}.{axis}"

    def types_alone(self, model: ModelProto) -> Mapping[str, TypeProto | None]:
        raise Untraceable


class Present(frozenset[str]):
    """The element types of a model.

    Each test whether the model has an element type is a recorded question.
    """

    recorder: Recorder

    def __new__(cls, recorder: Recorder) -> Present:
        instance = super().__new__(cls)
        instance.recorder = recorder
        return instance

    def __contains__(self, kind: object) -> bool:
        return bool(self.recorder.ask("may_hold", frozenset([kind])))

    def __ge__(self, other: Collection[object]) -> bool:
        return bool(self.recorder.ask("may_hold", frozenset(other)))

    issuperset = __ge__  # type: ignore[assignment]


class RecordingCrossing:
    """The versions for a Builder that writes nodes with placeholders for new names."""

    def __init__(self, asker: Asker, recorder: Recorder) -> None:
        self.asker = asker
        self.recorder = recorder
        self.allow_approximate = asker.allow_approximate
        self.assume: Collection[Assumption] = asker.assume
        self.lowest = asker.lowest
        self.hints: dict[str, str] = {}  # by the token of a new name
        self.constants: dict[str, tuple[Hashable, TensorProto]] = {}  # by the token of a constant
        self._by_content: dict[Hashable, TensorProto] = {}

    @property
    def enters(self) -> str:
        return self.asker.enters

    def fresh(self, hint: str) -> str:
        name = placeholder("f", len(self.hints))
        self.hints[name] = hint
        return name

    def version(self, root: Root, domain: str) -> int:
        if domain == self.asker.domain:
            return self.asker.to
        answer: int = self.recorder.ask("version", domain)
        return answer

    def constant(
        self, root: Root, content: Hashable, tensor: Callable[[], TensorProto]
    ) -> TensorProto:
        if content not in self._by_content:
            original = tensor()
            name = placeholder("c", len(self.constants))
            self.constants[name] = (content, original)
            placed = TensorProto()
            placed.CopyFrom(original)
            placed.name = name
            self._by_content[content] = placed
        return self._by_content[content]

    def cross(self, node: Node, start: int, to: int, op: Builder) -> Result:
        return self.asker.cross(node, start, to, op)
