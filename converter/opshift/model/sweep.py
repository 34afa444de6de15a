# SPDX-License-Identifier: Apache-2.0
"""Removes unread nodes and constants after a conversion, with their declared types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from opshift.model.document import Document
from opshift.model.names import Owned, names_read
from opshift.model.scope import Place, Root, Scope
from opshift.model.walk import graphs_in, graphs_of
from opshift.model.weights.inplace import delete_others
from opshift.protos import GraphProto


def sweep(document: Document) -> bool:
    """Removes the unread values that the conversion wrote or stopped reading."""
    return Sweep(document).run([*document.take_unread(), *document.written_values()])


class Sweep:
    """A search for values that became unread because a conversion stopped reading them.

    Values that were unread before the conversion are kept, because the user did not ask for their
    removal.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.gone: dict[Scope, set[str]] = {}
        self.places: list[Place] = []
        self._lost: Counter[Owned] = Counter()  # reads by removed nodes
        self._inside: set[Scope] = set()  # the subgraphs of removed nodes

    def run(self, unread: Iterable[Owned]) -> bool:
        """Removes unread values, and then values that only they read; returns whether any were."""
        waiting = list(unread)
        while waiting:
            owner, name = waiting.pop()
            if owner is not None and name and not self._is_read(owner, name):
                waiting += self._remove(owner, name)
        for scope, names in self.gone.items():
            forget(scope, names)
            self.document.gone.setdefault(scope, set()).update(names)
        self.document.remove(self.places)
        return bool(self.gone)

    def _is_read(self, owner: Scope, name: str) -> bool:
        value = (owner, name)
        return self.document.names.count(value, owner.root) > self._lost[value]

    def _remove(self, owner: Scope, name: str) -> Iterator[Owned]:
        """Removes the node or constant of a value; yields the values that it read."""
        unreachable = owner in self._inside or id(owner.proto) not in owner.root.by_graph
        if name in owner.inputs or unreachable:
            return
        if name in owner.initializers or name in owner.sparse:
            self.gone.setdefault(owner, set()).add(name)
        elif (position := owner.producers.get(name)) is not None:
            node = owner.node(position)
            outputs = {output for output in node.output if output}
            if position in owner.removed or any(self._is_read(owner, o) for o in outputs):
                return
            owner.removed.add(position)
            self.places.append((owner, position))
            self.gone.setdefault(owner, set()).update(outputs)
            yield from self._stop_reading((owner.owner(read), read) for read in node.input)
            for _, graph in graphs_of(node):
                scopes = [s for s in _scopes_in(owner.root, graph) if s not in self._inside]
                self._inside.update(scopes)
                yield from self._stop_reading(_values_read_in(scopes))

    def _stop_reading(self, values: Iterable[Owned]) -> Iterator[Owned]:
        for owner, name in values:
            if owner is not None:
                self._lost[owner, name] += 1
                yield owner, name


def _scopes_in(root: Root, graph: GraphProto) -> list[Scope]:
    """Returns a graph and all its subgraphs."""
    scopes = (root.by_graph.get(id(inner)) for inner in graphs_in(graph))
    return [scope for scope in scopes if scope is not None]


def _values_read_in(scopes: Iterable[Scope]) -> Iterator[Owned]:
    """Yields the values that some graphs read, once for each read."""
    for scope in scopes:
        for name, count in names_read(scope).items():
            yield from [(scope.owner(name), name)] * count


def forget(scope: Scope, names: set[str]) -> None:
    """Removes the named constants from a scope, with the declarations of their types."""
    proto = scope.proto
    if isinstance(proto, GraphProto):
        keep_only(proto.initializer, lambda tensor: tensor.name not in names)
        keep_only(proto.sparse_initializer, lambda sparse: sparse.values.name not in names)
    keep_only(proto.value_info, lambda value: value.name not in names)
    scope.forget(names)


def keep_only(container: Any, is_kept: Callable[[Any], bool]) -> None:
    """Deletes the elements of a repeated field for which `is_kept` is false."""
    positions = [i for i, element in enumerate(container) if is_kept(element)]
    if len(positions) != len(container):
        delete_others(container, positions)
