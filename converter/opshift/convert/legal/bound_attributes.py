# SPDX-License-Identifier: Apache-2.0
"""Finds the values of a function's attribute: its default value, and the values in calls."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TypeAlias

from opshift.model.document import Document
from opshift.model.scope import FunctionId, Place, Root
from opshift.protos import AttributeProto, NodeProto

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
        found: dict[FunctionId, list[tuple[Root, Place]]] = {}
        for root in self.document.roots:
            for which, places in root.calls.items():
                found.setdefault(which, []).extend((root, place) for place in places)
        return found

    def _values(self, wanted: Name) -> Values:
        """Returns the values of a function's attribute, also those passed by other functions."""
        if wanted in self.known:
            return self.known[wanted]
        sources, waiting, found = {wanted}, [wanted], Values()
        while waiting:
            function, name = waiting.pop()
            for given in self._given(function, name):
                if not isinstance(given, AttributeProto):
                    waiting += {given} - sources
                    sources.add(given)
                    continue
                value = AttributeProto()
                value.CopyFrom(given)
                value.ClearField("name")
                found[value.SerializeToString()] = value
        self.known[wanted] = found
        return found

    def _given(self, which: FunctionId, name: str) -> Iterator[AttributeProto | Name]:
        """Yields the values of one attribute in the calls of a function.

        The default value counts if a call omits the attribute, or if the function is never called.
        """
        calls = self._calls.get(which, [])
        left_out = not calls
        for root, (scope, position) in calls:
            own = [one for one in scope.node(position).attribute if one.name == name]
            left_out |= not own
            for one in own:
                if not one.ref_attr_name:
                    yield one
                elif root.function is not None:
                    yield root.function, one.ref_attr_name
        if left_out:
            defaults = self.document.functions[which].attribute_proto
            yield from (one for one in defaults if one.name == name)
