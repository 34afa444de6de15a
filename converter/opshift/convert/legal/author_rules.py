# SPDX-License-Identifier: Apache-2.0
"""Applies the rules that authors of adapters declare for nodes of their operators."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import TypeAlias, TypeVar

from opshift.author.facts import Facts, ScopeEnv
from opshift.author.node import Node
from opshift.author.traits import Differs, Flaw, Illegal, bug_of
from opshift.convert.legal.findings import Checked, Unjudged
from opshift.errors import Refusal
from opshift.model.document import Document
from opshift.model.scope import FunctionId, Place, Root
from opshift.model.walk import named
from opshift.opsets import schemas
from opshift.protos import AttributeProto, NodeProto

DIFFERS = "onnxruntime computes this node differently from the specification"
_Looking = TypeVar("_Looking", Flaw, Differs)


def attributes(checked: Checked) -> Iterator[str]:
    """Yields illegal attributes that onnx's checker accepts."""
    declared = checked.adapters.traits(Illegal)
    bound = BoundAttributes(checked.document)
    for root in checked.document.roots:
        for key in sorted(root.index.keys() & declared.keys()):
            for scope, position in root.index[key]:
                node = scope.node(position)
                for trait in declared[key]:
                    messages = (
                        trait.against(node, *attribute_set)
                        for attribute_set in bound.of(root, node)
                    )
                    if (first := next(filter(None, messages), None)) is not None:
                        yield f"{named(node)}: {first}"


def flaws(checked: Checked) -> Iterator[str | Unjudged]:
    """Yields illegal nodes that onnx's checker and inference accept."""
    assert checked.facts is not None, "the rule needs the types and constants of values"
    for (scope, at), message in flawed(checked.facts):
        yield message if isinstance(message, Unjudged) else f"{named(scope.node(at))}: {message}"


def flawed(facts: Facts) -> Iterator[tuple[Place, str | Unjudged]]:
    """Yields the place and the fault of each node that a function with `@flaw` finds illegal."""
    return _messages(facts, facts.adapters.traits(Flaw), None)


def differing(facts: Facts, goal: Mapping[str, int]) -> Iterator[str]:
    """Yields a note for each node for which onnxruntime differs from the specification.

    Only nodes whose operator changes between the model's versions and `goal` are included.
    """
    for (scope, at), message in _messages(facts, facts.adapters.traits(Differs), goal):
        shown = f"{named(scope.node(at))}: {DIFFERS}: {message}"
        yield str(message) if isinstance(message, Unjudged) else shown


def _messages(
    facts: Facts,
    declared: Mapping[tuple[str, str], tuple[_Looking, ...]],
    goal: Mapping[str, int] | None,
) -> Iterator[tuple[Place, str | Unjudged]]:
    """Yields the place of each node for which an author's function returns a message."""
    for root in facts.document.roots:
        for key in sorted(root.index.keys() & declared.keys()):
            version = root.imports.get(key[0]) or 0
            end = goal.get(key[0], version) if goal is not None else None
            if end is not None and schemas.schema(*key, version) == schemas.schema(*key, end):
                continue
            for scope, position in root.index[key]:
                proto = scope.node(position)
                node = Node(proto, root.layout_of(proto), ScopeEnv(facts, scope))
                for trait in declared[key] if node.schema is not None and node.fits else ():
                    if message := _answer(trait, node):
                        yield (scope, position), message


def _answer(trait: Flaw | Differs, node: Node) -> str | Unjudged | None:
    """Returns an author's message on a node, or None if a needed type or constant is unknown."""
    try:
        return trait.find_objection(node)
    except Refusal:
        return None
    # an error in an author's function must not hide findings of other rules
    except Exception as error:
        return Unjudged(named(node.proto), bug_of(trait.find_objection, node.proto, error))


# -- the values of a function's attributes ---------------------------------------------------------


Name: TypeAlias = tuple[FunctionId, str]  # a function and the name of its attribute
# the key is the value's serialization without a name
Values: TypeAlias = dict[bytes, AttributeProto]


class BoundAttributes:
    """Finds the values of attribute references in the functions of a model."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.known: dict[Name, Values] = {}

    def of(self, root: Root, node: NodeProto) -> Iterator[tuple[AttributeProto, ...]]:
        """Yields (), then a node's attribute with each value that calls of the function set."""
        yield ()
        if root.function is None:
            return
        for attribute in node.attribute:
            if attribute.ref_attr_name:
                for value in self._values((root.function, attribute.ref_attr_name)).values():
                    named = AttributeProto(name=attribute.name)
                    named.MergeFrom(value)
                    yield (named,)

    @functools.cached_property
    def _calls(self) -> dict[FunctionId, list[tuple[Root, Place]]]:
        """The calls of each function."""
        calls: dict[FunctionId, list[tuple[Root, Place]]] = {}
        for root in self.document.roots:
            for which, places in root.calls.items():
                calls.setdefault(which, []).extend((root, place) for place in places)
        return calls

    def _values(self, attribute: Name) -> Values:
        """Returns the values of a function's attribute, also those passed by other functions."""
        if attribute in self.known:
            return self.known[attribute]
        sources, waiting, values = {attribute}, [attribute], Values()
        while waiting:
            function, name = waiting.pop()
            for bound_value in self._given(function, name):
                if not isinstance(bound_value, AttributeProto):
                    waiting += {bound_value} - sources
                    sources.add(bound_value)
                    continue
                value = AttributeProto()
                value.CopyFrom(bound_value)
                value.ClearField("name")
                values[value.SerializeToString()] = value
        self.known[attribute] = values
        return values

    def _given(self, which: FunctionId, name: str) -> Iterator[AttributeProto | Name]:
        """Yields the values of one attribute in the calls of a function.

        The default value counts if a call omits the attribute, or if the function is never called.
        """
        calls = self._calls.get(which, [])
        left_out = not calls
        for root, (scope, position) in calls:
            attributes = [
                attribute for attribute in scope.node(position).attribute if attribute.name == name
            ]
            left_out |= not attributes
            for own_attribute in attributes:
                if not own_attribute.ref_attr_name:
                    yield own_attribute
                elif root.function is not None:
                    yield root.function, own_attribute.ref_attr_name
        if left_out:
            defaults = self.document.functions[which].attribute_proto
            yield from (default for default in defaults if default.name == name)
