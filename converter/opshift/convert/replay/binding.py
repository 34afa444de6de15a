# SPDX-License-Identifier: Apache-2.0
"""Maps placeholders to the values around a node, and answers recorded questions about them.

With placeholders (tokens) instead of names, one record applies to many nodes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Protocol

from opshift.author.builder import Crossing
from opshift.author.facts import Facts, ScopeEnv
from opshift.author.node import TypePart
from opshift.author.registry import Registry
from opshift.convert.replay import comparable
from opshift.convert.replay.comparable import Untraceable
from opshift.model.scope import Scope
from opshift.opsets import schemas
from opshift.opsets.types import LENGTH
from opshift.protos import NodeProto

NEVER = object()  # an answer that no record contains
NODE = "⟦node⟧"
_TOKEN = re.compile(r"⟦\w+⟧")
_QUOTED = re.compile(r"'(⟦\w+⟧)'")


def placeholder(kind: str, number: int) -> str:
    """Returns a placeholder; `kind` is v (value), s (symbol), f (new name) or c (new constant)."""
    return f"⟦{kind}{number}⟧"


def is_value(token: str) -> bool:
    """Returns whether a placeholder is for a value of the model, not for a new value."""
    return token.startswith("⟦v")


def reason(token: str) -> str:
    """Returns the placeholder for the reason why a value is not a constant."""
    return f"⟦why_{token[1:]}"


def filled(text: str, meaning: Callable[[str], str]) -> str:
    """Returns a text with names for its placeholders; quoted placeholders become quoted names."""
    if "⟦" not in text:
        return text
    text = _QUOTED.sub(lambda match: repr(meaning(match[1])), text)
    return _TOKEN.sub(lambda match: meaning(match[0]), text)


class Asker(Crossing, Protocol):
    """The step that converts a node, with an adapter or with the record of an earlier call."""

    facts: Facts
    adapters: Registry
    domain: str
    to: int
    boundary: tuple[int, int]


class NodeTokens:
    """A node of a model, with placeholders for the names around it."""

    def __init__(self, asker: Asker, scope: Scope, node: NodeProto) -> None:
        self.asker = asker
        self.scope = scope
        self.node = node
        self.claims: dict[str, str] = {}
        self._envs: dict[Scope, ScopeEnv] = {}
        self._places: list[tuple[Scope, str]] = []  # the scope and name of each value token
        self._tokens: dict[tuple[Scope, str], str] = {}
        self._symbols: dict[str, str] = {}
        self.inputs = self.bind(scope, node.input)
        self.outputs = self.bind(scope, node.output)

    def bind(self, scope: Scope, names: Iterable[str]) -> tuple[str, ...]:
        """Returns placeholders for names in a graph; two names of one value share a placeholder."""
        return tuple([self._token(scope, name) if name else "" for name in names])

    def _token(self, scope: Scope, name: str) -> str:
        place = scope if scope.parent is None else scope.owner(name) or scope, name
        token = self._tokens.get(place)
        if token is None:
            token = self._tokens[place] = placeholder("v", len(self._places))
            self._places.append((scope, name))
        return token

    def place(self, token: str) -> tuple[ScopeEnv, str]:
        """Returns the name for a placeholder, and the known types in the graph with this name."""
        if not is_value(token):
            raise Untraceable
        scope, name = self._places[int(token[2:-1])]
        if scope not in self._envs:
            self._envs[scope] = ScopeEnv(self.asker.facts, scope, self.claims)
        return self._envs[scope], name

    def symbol(self, symbol: str) -> str:
        """Returns the placeholder for the symbol of a dimension."""
        symbols = self._symbols
        if symbol not in symbols:
            start = LENGTH if symbol.startswith(LENGTH) else ""
            symbols[symbol] = start + placeholder("s", len(symbols))
        return symbols[symbol]

    def meaning(self, token: str) -> str:
        """Returns the text for a placeholder in a message."""
        if token == NODE:
            return self.node.name
        if token.startswith("⟦why_"):
            env, name = self.place(f"⟦{token[5:]}")
            return env.why_dynamic(name)
        if token.startswith("⟦s"):
            symbol = next(
                symbol_name
                for symbol_name, token_of_symbol in self._symbols.items()
                if token_of_symbol.endswith(token)
            )
            return symbol.removeprefix(LENGTH)
        return self.place(token)[1]

    # -- answers ---------------------------------------------------------------------------------

    def answer(self, question: tuple[Any, ...]) -> Any:
        """Returns the answer to an adapter's question about this node, as a comparable value."""
        kind, *details = question
        try:
            return getattr(self, f"_{kind}")(*details)
        except Untraceable:
            return NEVER

    def _type(self, token: str, part: TypePart) -> Hashable:
        env, name = self.place(token)
        return comparable.of_type(env.type(name), part, self.symbol)

    def _dims(self, token: str) -> Hashable:
        env, name = self.place(token)
        proto = env.type(name)
        assert proto is not None  # an earlier question required the rank
        return self._in_tokens(env.dims(name, proto))

    def _claimed(self, token: str) -> Hashable:
        env, name = self.place(token)
        proto = env.type(name)
        assert proto is not None
        return self._in_tokens(env.claimed_dims(name, env.dims(name, proto)))

    def _in_tokens(self, dims: Iterable[int | str | None]) -> tuple[int | str | None, ...]:
        return tuple(self.symbol(dim) if isinstance(dim, str) else dim for dim in dims)

    def _constant(self, token: str) -> Hashable:
        env, name = self.place(token)
        return comparable.of_constant(env.constant(name))

    def _bounds(self, token: str) -> Hashable:
        env, name = self.place(token)
        return comparable.of_bounds(env.bounds(name))

    def _fact(self, token: str, kind: str) -> bool:
        """Returns a fact about a value that is true or false, such as `is_read`."""
        env, name = self.place(token)
        return bool(getattr(env, kind)(name))

    def _producer(self, token: str) -> Hashable:
        """Returns the node that computes a value, with placeholders for names."""
        env, name = self.place(token)
        producer = env.producer(name)
        if producer is None:
            return None
        signature = comparable.of_node(producer.proto)
        assert isinstance(producer.env, ScopeEnv)
        inputs, outputs = (
            self.bind(producer.env.scope, names)
            for names in (producer.proto.input, producer.proto.output)
        )
        return Neighbour(signature, inputs, outputs, producer.proto, producer.schema)

    def _may_hold(self, types: frozenset[str]) -> bool:
        return types <= self.asker.facts.present_types

    def _rare(self) -> frozenset[str]:
        return ScopeEnv(self.asker.facts, self.scope).rare_types()

    def _version(self, domain: str) -> int:
        return self.asker.version(self.scope.root, domain)


class Neighbour:
    """The node that computes a value, with placeholders for names.

    Two such nodes are equal if their operator, attributes and placeholders are equal.
    """

    __slots__ = ("_key", "inputs", "outputs", "proto", "schema")

    def __init__(
        self,
        signature: Hashable,
        inputs: tuple[str, ...],
        outputs: tuple[str, ...],
        proto: NodeProto,
        schema: schemas.Schema | None,
    ) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.proto = proto
        self.schema = schema
        # This object keeps the schema alive, so that its id stays unique.
        self._key = (signature, inputs, outputs, id(schema))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Neighbour) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def in_tokens(self) -> NodeProto:
        """A copy of the node with placeholders for names."""
        return in_tokens(self.proto, self.inputs, self.outputs)


def in_tokens(node: NodeProto, inputs: Iterable[str], outputs: Iterable[str]) -> NodeProto:
    """Returns a copy of a node with placeholders for names."""
    copy = NodeProto(domain=node.domain, op_type=node.op_type, input=inputs, output=outputs)
    if node.name:
        copy.name = NODE
    if getattr(node, "overload", ""):
        copy.overload = node.overload
    copy.attribute.extend(node.attribute)
    return copy
