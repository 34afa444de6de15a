# SPDX-License-Identifier: Apache-2.0
"""Copies an opened model, so that several conversions can continue from one state."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace

from opshift.model.document import Document
from opshift.model.names import Names
from opshift.model.scope import Imports, Place, Root, Scope
from opshift.model.walk import Container, graphs_in_defaults, graphs_of, tops
from opshift.opsets import schemas
from opshift.protos import ModelProto
from opshift.protos.copies import copied


class Scopes(dict[Scope, Scope]):
    """Maps each graph and function of a model to its copy.

    A scope that was removed from the model is copied if a table still contains it.
    """

    def __init__(self, roots: dict[Root, Root]) -> None:
        super().__init__()
        self.roots = roots

    def __missing__(self, scope: Scope) -> Scope:
        return self.add(scope, scope.proto)

    def add(self, scope: Scope, proto: Container) -> Scope:
        """Copies the table of names of one graph or function, for the copy of the model."""
        twin = self[scope] = copy.copy(scope)
        twin.root, twin.proto = self.roots[scope.root], proto
        twin.parent = None if scope.parent is None else self[scope.parent]
        twin.order, twin.removed, twin.ahead = {**scope.order}, {*scope.removed}, {**scope.ahead}
        for table in vars(twin).keys() & {"producers", "node_names"}:
            setattr(twin, table, copy.copy(getattr(scope, table)))
        twin.forget_tables("initializers", "declared")  # they refer to parts of the old graph
        return twin

    def places(self, places: list[Place]) -> list[Place]:
        """Returns the positions of the same nodes in the copy."""
        return [(self[scope], position) for scope, position in places]


class Fork:
    """A copy of a document that changes independently, with the copies of its scopes."""

    def __init__(self, document: Document) -> None:
        self.roots: dict[Root, Root] = {}
        self.scopes = Scopes(self.roots)
        self.document = self._copied(document)

    def _copied(self, old: Document) -> Document:
        new, scopes = copy.copy(old), self.scopes
        new.model = copied(old.model)
        protos = dict(_pairs(old, new.model))
        new.imports = Imports(new.model.opset_import, "the model")
        new.functions = dict(zip(old.functions, new.model.functions, strict=True))
        for root in old.roots:
            self.roots[root] = self._root(root, new)
        for root in old.roots:
            for scope in root.scopes:
                scopes.add(scope, protos[id(scope.proto)])
        for root, twin in self.roots.items():
            twin.index = {key: scopes.places(places) for key, places in root.index.items()}
            twin.calls = {key: scopes.places(places) for key, places in root.calls.items()}
            twin.scopes = [scopes[scope] for scope in root.scopes]
            twin.by_graph = {id(scope.proto): scope for scope in twin.scopes}
        new.roots = list(self.roots.values())
        new.names = Names(new.model, new.roots)
        new._constants = {
            (self.roots[at], key): constant for (at, key), constant in old._constants.items()
        }
        new._unread = {(at and scopes[at], name): None for at, name in old._unread}
        new.gone = {scopes[at]: {*names} for at, names in old.gone.items()}
        new.inherited = {
            name: replace(heritage, owner=scopes[heritage.owner])
            for name, heritage in old.inherited.items()
        }
        new.sharded = dict.fromkeys(scopes.places(list(old.sharded)))
        new.rewritten = set(scopes.places(list(old.rewritten)))
        new.origins, new.missed = {**old.origins}, {**old.missed}
        return new

    def _root(self, root: Root, new: Document) -> Root:
        """Copies the main graph or a function of a document, without its scopes."""
        imports = new.imports
        if root.function is not None:
            imports = Imports(new.functions[root.function].opset_import, root.name)
        return Root(root.kind, root.name, imports, root.function)


def _pairs(old: Document, model: ModelProto) -> Iterator[tuple[int, Container]]:
    """Yields the id of each graph and function of a document, with its copy."""
    waiting: list[tuple[Container, Container]] = [*zip(tops(old.model), tops(model), strict=True)]
    while waiting:
        original, twin = waiting.pop()
        yield id(original), twin
        waiting += zip(graphs_in_defaults(original), graphs_in_defaults(twin), strict=True)
        for node, twin_node in zip(original.node, twin.node, strict=True):
            key = (schemas.normal(node.domain), node.op_type)
            if schemas.may_hold_graphs(*key) or old.is_call(node):
                graphs = zip(graphs_of(node), graphs_of(twin_node), strict=True)
                waiting += [(graph, copied_graph) for (_, graph), (_, copied_graph) in graphs]
