# SPDX-License-Identifier: Apache-2.0
"""Opens a model for a conversion: its graphs and functions, names, constants and imports."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

from opshift import versions
from opshift.assumptions import Assumption
from opshift.errors import InvalidModel
from opshift.model.names import Names, Owned
from opshift.model.scope import FunctionId, Imports, Key, Place, Root, Scope, call_id
from opshift.model.walk import Container, graphs_in_defaults, graphs_of, name_of
from opshift.opsets import schemas
from opshift.protos import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto
from opshift.protos.copies import copy_of
from opshift.records import dataclass

MAX_NESTING = 30  # protobuf allows 100 nested messages, of which each graph needs three


@dataclass(frozen=True, slots=True)
class Heritage:
    """The name, the documentation and the metadata of a constant that was replaced."""

    owner: Scope
    name: str
    doc_string: str
    metadata: tuple[tuple[str, str], ...]


def heritage_of(owner: Scope, tensor: TensorProto, name: str) -> Heritage:
    """Returns the properties that the replacement of a constant inherits."""
    metadata = tuple((entry.key, entry.value) for entry in tensor.metadata_props)
    return Heritage(owner, name, tensor.doc_string, metadata)


class Document:
    """A model opened for conversion, without large tensors and with its nodes by operator."""

    def __init__(
        self, model: ModelProto, prefix: str = "opshift_", before: Document | None = None
    ) -> None:
        """Opens a model; `before` is an earlier index of it, which steps have changed."""
        self.model = model
        self.prefix = prefix
        self._made = 0
        self.has_written = False  # whether a step has made a name with the prefix
        self._constants: dict[tuple[Root, Hashable], TensorProto] = {}
        self._unread: dict[Owned, None] = {}  # values without a reader, in order
        self.gone: dict[Scope, set[str]] = {}  # the names that were removed from the model
        self.inherited: dict[str, Heritage] = {}  # the properties that new constants inherit
        self.sharded: dict[Place, None] = {}  # the rewritten nodes with shardings
        self.rewritten: set[Place] = set()  # the nodes that replaced other nodes
        self.generation = 0  # the number of changes of the nodes; caches of facts compare it
        self.added_initializers: bool = before is not None and before.added_initializers
        # for each value of a new node: the source node that computed it or for which it was written
        self.origins: dict[str, str] = {**before.origins} if before else {}
        # by new value: an assumption that avoids its node
        self.missed: dict[str, Assumption] = {**before.missed} if before else {}
        self.functions: dict[FunctionId, FunctionProto] = {}
        for function in model.functions:
            key = function_id(function)
            if key in self.functions:
                raise InvalidModel(f"two model-local functions are called {key}; rename one")
            self.functions[key] = function
        self._called_names = {(domain, name) for domain, name, _ in self.functions}
        self.imports = Imports(model.opset_import, "the model")
        self.roots: list[Root] = []
        self.names = Names(model, self.roots)
        self.roots.append(self._open(Root("graph", "graph", self.imports), model.graph))
        for key, function in self.functions.items():
            where = f"function {function.name!r}"
            imports = Imports(function.opset_import, where)
            root = self._open(Root("function", where, imports, key), function)
            for graph in graphs_in_defaults(function):
                self.enter(root, graph, root.top)
            self.roots.append(root)
        for i, training in enumerate(model.training_info):
            for part in ("initialization", "algorithm"):
                if training.HasField(part):
                    root = Root("training", f"training_info[{i}].{part}", self.imports)
                    self.roots.append(self._open(root, getattr(training, part)))
                    if part == "algorithm":
                        # A training algorithm continues the main graph and can read its values.
                        root.top.parent = self.main

    @property
    def main(self) -> Scope:
        return self.roots[0].top

    def _open(self, root: Root, proto: Container) -> Root:
        self.enter(root, proto, None)
        return root

    def enter(self, root: Root, proto: Container, parent: Scope | None) -> Scope:
        """Indexes a graph or function and its subgraphs."""
        depth = 0 if parent is None else parent.depth + 1
        if depth > MAX_NESTING:
            raise InvalidModel(f"graphs are nested more than {MAX_NESTING} deep in {root.name}")
        scope = Scope(root, proto, parent, depth)
        root.scopes.append(scope)
        root.by_graph[id(proto)] = scope
        index: dict[Key, list[Place]] = {}
        for i, node in enumerate(proto.node):  # visits every node of a model: must be fast
            key = (node.domain, node.op_type)
            places = index.get(key)
            if places is None:
                places = index[key] = []
            places.append((scope, i))
        for key, places in index.items():
            self._file(root, (schemas.normal(key[0]), key[1]), places)
        return scope

    def _file(self, root: Root, key: Key, places: list[Place]) -> None:
        """Adds the nodes of one operator to the index, and indexes their subgraphs."""
        if key in self._called_names:
            places = self._file_calls(root, key, places)
        if places:
            root.index.setdefault(key, []).extend(places)
        if schemas.may_hold_graphs(*key):
            for scope, i in places:
                for _, graph in graphs_of(scope.proto.node[i]):
                    self.enter(root, graph, scope)

    def _file_calls(self, root: Root, key: Key, places: list[Place]) -> list[Place]:
        """Indexes calls of functions of the model; returns the nodes that are operators."""
        operators = []
        for scope, i in places:
            node = scope.proto.node[i]
            if self.is_call(node):
                root.calls.setdefault(call_id(node), []).append((scope, i))
                for _, graph in graphs_of(node):
                    self.enter(root, graph, scope)
            else:
                operators.append((scope, i))
        return operators

    def enter_node(self, scope: Scope, position: int) -> None:
        """Adds one node that a step wrote, with its subgraphs, to the index."""
        node, root = scope.node(position), scope.root
        if "producers" in vars(scope):
            scope.producers.update(dict.fromkeys(filter(None, node.output), position))
        key = (schemas.normal(node.domain), node.op_type)
        root.index.setdefault(key, []).append((scope, position))
        if schemas.may_hold_graphs(*key):
            for _, graph in graphs_of(node):
                if id(graph) not in root.by_graph:
                    self.enter(root, graph, scope)

    def note_change(self) -> None:
        """Counts a change of the nodes in `generation`, so that caches of facts notice it."""
        self.generation += 1
        self.names.forget()

    def forget_scopes(self, graphs: Sequence[GraphProto]) -> None:
        """Forgets graphs that were removed from the model, and their nodes."""
        ids = {id(graph) for graph in graphs}
        for root in self.roots if ids else ():
            inside = {
                id(scope) for scope in root.scopes if any(id(s.proto) in ids for s in scope.chain())
            }
            if inside:
                for scope in root.scopes:
                    if id(scope) in inside:
                        del root.by_graph[id(scope.proto)]
                root.scopes = [scope for scope in root.scopes if id(scope) not in inside]
                _prune(root.index, inside)
                _prune(root.calls, inside)

    def scopes(self) -> Iterator[Scope]:
        """Yields every graph and function, at any depth."""
        return (scope for root in self.roots for scope in root.scopes)

    def operators(self) -> Iterator[tuple[Root, Key, list[Place]]]:
        """Yields the operators of each graph and function in order, with the nodes of each."""
        for root in self.roots:
            yield from ((root, key, places) for key, places in sorted(root.index.items()))

    def versions_of(self, domain: str) -> list[int]:
        """Returns the versions of a domain that the model and its functions import, sorted."""
        return sorted({r.imports[domain] for r in self.roots if domain in r.imports})

    def sort(self) -> None:
        for scope in self.scopes():
            scope.sort()

    def is_call(self, node: NodeProto) -> bool:
        return call_id(node) in self.functions

    def origin(self, node: NodeProto) -> str | None:
        """Returns the source node for which a step wrote this node; None for a source node."""
        return self.origins.get(next(filter(None, node.output), ""))

    def where(self, node: NodeProto) -> str:
        """Returns the name of a node for a message; a new node is named with its source node."""
        origin = self.origin(node)
        return f"{name_of(node)} (written for {origin})" if origin else name_of(node)

    def calls_behind(self, scope: Scope, node: NodeProto) -> set[FunctionId]:
        """Returns the functions that compute a node's inputs; inlining them may give more facts."""
        functions = set()
        for name in filter(None, node.input):
            owner = scope.owner(name)
            position = owner.producers.get(name) if owner else None
            if owner and position is not None and self.is_call(owner.node(position)):
                functions.add(call_id(owner.node(position)))
        return functions

    # -- names and constants -----------------------------------------------------------------

    def fresh(self, hint: str) -> str:
        """Returns a new name; no name of the source model begins with the prefix."""
        self._made += 1
        self.has_written = True
        return f"{self.prefix}{self._made}_{hint}"

    def is_fresh(self, name: str) -> bool:
        return name.startswith(self.prefix)

    def is_written(self, name: str) -> bool:
        """Returns whether a step made a name; names of inlined functions do not count."""
        after = len(self.prefix)
        return name.startswith(self.prefix) and name[after : after + 1].isdecimal()

    def constant(
        self, root: Root, content: Hashable, tensor: Callable[[], TensorProto]
    ) -> TensorProto:
        """Returns a named tensor; calls with equal `content` return the same tensor."""
        placed = self._constants.get((root, content))
        if placed is None:
            placed = self._constants[root, content] = self._named(root, tensor())
        return placed

    def _named(self, root: Root, tensor: TensorProto) -> TensorProto:
        """Returns a copy of a tensor with a new name; equal tensors of a graph share one name."""
        key = (root, tensor.SerializeToString(deterministic=True))
        if key not in self._constants:
            placed = copy_of(tensor)
            placed.name = self.fresh("const")
            self._constants[key] = placed
        return self._constants[key]

    def place_constant(self, root: Root, tensor: TensorProto) -> None:
        if tensor.name not in root.top.initializers:
            root.top.add_initializer(tensor)
            self.added_initializers = True

    def mark_unread(self, scope: Scope, names: Iterable[str]) -> None:
        """Records the inputs of a replaced node, which `sweep` removes if they are unread."""
        for name in names:
            if name:
                self._unread[scope, name] = None

    def take_unread(self) -> list[Owned]:
        """Returns the values that lost a reader since the last call."""
        unread = [(scope.owner(name), name) for scope, name in self._unread if scope]
        self._unread = {}
        return unread

    def written_values(self) -> Iterator[Owned]:
        """Yields the values of the nodes and constants that steps wrote."""
        for root in self.roots if self.has_written else ():
            for scope in root.scopes:
                fresh = filter(self.is_fresh, scope.initializers)
                yield from [(scope, name) for name in fresh]
                for name, position in scope.producers.items():
                    if self.is_fresh(name) and scope.node(position).output[:1] == [name]:
                        yield scope, name

    def remove(self, places: Iterable[Place]) -> None:
        """Removes nodes from the model and from all tables."""
        places = list(places)
        self.leave_index(places)
        for scope, position in places:
            scope.removed.add(position)
        self.forget_scopes(
            [g for scope, position in places for _, g in graphs_of(scope.node(position))]
        )
        if places:
            self.note_change()

    def leave_index(self, places: Iterable[Place]) -> None:
        """Removes nodes from the index, all at once, because the lists in the index are long."""
        by_operator: dict[tuple[Root, Key], set[tuple[int, int]]] = {}
        calls: dict[tuple[Root, FunctionId], set[tuple[int, int]]] = {}
        for scope, position in places:
            node, place = scope.node(position), (id(scope), position)
            if self.is_call(node) and (scope, position) not in self.rewritten:
                calls.setdefault((scope.root, call_id(node)), set()).add(place)
            else:
                key = (schemas.normal(node.domain), node.op_type)
                by_operator.setdefault((scope.root, key), set()).add(place)
        for (root, key), lost in by_operator.items():
            _drop(root.index, key, lost)
        for (root, called), lost in calls.items():
            _drop(root.calls, called, lost)

    def add_import(self, root: Root, domain: str, lowest: int = 1) -> int:
        """Imports a domain for the nodes that an adapter writes; returns the version."""
        paired = versions.paired(root.imports, domain, self.model.ir_version)
        version = max(paired, lowest)
        container = self.model if root.function is None else self.functions[root.function]
        root.imports.add(container.opset_import.add(domain=domain, version=version))
        return version


_AnyKey = TypeVar("_AnyKey", Key, FunctionId)


def _drop(index: dict[_AnyKey, list[Place]], key: _AnyKey, places: set[tuple[int, int]]) -> None:
    """Removes the nodes of one operator or function from an index."""
    index[key] = [place for place in index[key] if (id(place[0]), place[1]) not in places]
    if not index[key]:
        del index[key]


def _prune(index: dict[_AnyKey, list[Place]], inside: set[int]) -> None:
    for key in list(index):
        index[key] = [place for place in index[key] if id(place[0]) not in inside]
        if not index[key]:
            del index[key]


def function_id(function: FunctionProto) -> FunctionId:
    """Returns the domain, name and overload of a function."""
    return schemas.normal(function.domain), function.name, function.overload
