# SPDX-License-Identifier: Apache-2.0
"""Finds the nodes around a node, for rewrites that depend on them."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TypeAlias

from opshift.author.facts import Facts, ScopeEnv
from opshift.author.node import Node, Value
from opshift.model.scope import Scope
from opshift.opsets import cast_pairs
from opshift.opsets.elements import T

# The positions of the nodes that read each value of one graph.
Readers: TypeAlias = "Callable[[Scope], Mapping[str, list[int]]]"


def readers() -> Readers:
    """Returns a cached function that finds the nodes that read each value of an unchanged graph."""
    return functools.cache(_readers)


def _readers(scope: Scope) -> Mapping[str, list[int]]:
    positions: dict[str, list[int]] = defaultdict(list)
    for at, node in enumerate(scope.proto.node):
        for name in node.input if at not in scope.removed else ():
            positions[name].append(at)
    return positions


def node_at(facts: Facts, scope: Scope, at: int) -> Node:
    """Returns a node of a graph, with the facts about its values."""
    return Node(scope.node(at), scope.layout_at(at), ScopeEnv(facts, scope))


class Surroundings:
    """Finds the nodes that read the values of a graph, for rules about more than one node."""

    def __init__(self, facts: Facts, scope: Scope, read_by: Readers) -> None:
        self._facts, self._scope, self._read_by = facts, scope, read_by

    def is_output(self, value: Value) -> bool:
        """Returns whether a value is an output of the graph."""
        return value.name in self._scope.outputs

    def is_default(self, value: Value) -> bool:
        """Returns whether a value is an initializer of the graph that callers may replace."""
        names = self._facts.document.names
        return value.name in self._scope.initializers and names.may_be_set(self._scope, value.name)

    def readers(self, value: Value) -> list[Node]:
        """Returns the nodes of the same graph that read a value."""
        positions = self._read_by(self._scope).get(value.name, ())
        return [node_at(self._facts, self._scope, at) for at in positions]

    def is_read_within(self, value: Value) -> bool:
        """Returns whether a subgraph reads a value of this graph."""
        return any(
            value.name in self._read_by(scope) and scope.owner(value.name) is self._scope
            for scope in self._scope.root.scopes
            if scope is not self._scope
        )

    def only_readers(
        self, value: Value, ops: Collection[str]
    ) -> Iterator[tuple[Node, list[Value]]]:
        """Yields a chain of nodes of these operators, with the constants among their inputs.

        Each node is the only reader of the first output of the node before it.
        """
        while len(readers := self.readers(value)) == 1 and readers[0].op in ops:
            if self.is_output(value) or self.is_read_within(value):
                return
            (reader,) = readers
            inputs = [given for given in reader.inputs if given is not None]
            yield reader, [v for v in inputs if v.is_weight or v.const_or_none() is not None]
            if (result := reader.outputs[0]) is None:
                return
            value = result

    def has_lossy_pair(self, cast: Node) -> bool:
        """Returns whether merging a Cast with the Cast before it would change the result.

        Runtimes merge two Casts if only Casts read the value between them.
        """
        middle = cast["input"]
        at = self._scope.producers.get(middle.name)
        if at is None or self._scope.node(at).op_type != "Cast":
            return False
        if self._is_read_otherwise(middle):
            return False
        source = node_at(self._facts, self._scope, at)["input"]
        kinds = [T(value.elem_type) for value in (source, middle, *filter(None, cast.outputs))]
        if not cast_pairs.narrows(*(kind.name.lower() for kind in kinds)):
            return False
        bounds, (low, high) = source.bounds_or_none, kinds[1].element.limits
        return bounds is None or bounds.lowest < low or bounds.highest > high

    def _is_read_otherwise(self, value: Value) -> bool:
        """Returns whether a graph output, a subgraph or a node other than Cast reads a value."""
        return (
            self.is_output(value)
            or any(reader.op != "Cast" for reader in self.readers(value))
            or self.is_read_within(value)
        )
