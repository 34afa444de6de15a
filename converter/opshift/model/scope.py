# SPDX-License-Identifier: Apache-2.0
"""Describes graphs, subgraphs and functions of a model: their nodes, and the visible names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field
from functools import cached_property
from typing import Any, TypeAlias

from opshift.model.walk import Container, graphs_of
from opshift.opsets import layouts, schemas
from opshift.opsets.identity import require_one_version
from opshift.protos import (
    FunctionProto,
    GraphProto,
    NodeProto,
    OperatorSetIdProto,
    SparseTensorProto,
    TensorProto,
    TypeProto,
)
from opshift.protos.copies import copy_of
from opshift.records import dataclass

Key: TypeAlias = tuple[str, str]  # (domain, op_type)
FunctionId: TypeAlias = tuple[str, str, str]  # (domain, name, overload)


def _ordered(names: Iterable[str]) -> AbstractSet[str]:
    """Returns a set in the order of the model, so that no result depends on hashes."""
    return dict.fromkeys(names).keys()


@dataclass(eq=False)
class Scope:
    """A graph or function with the names that it defines; `parent` is the graph around it.

    A table of names is made at its first use. Afterwards `vars(scope)` contains the table.
    """

    root: Root
    proto: Container
    parent: Scope | None
    depth: int
    order: dict[int, tuple[int, ...]] = field(default_factory=dict)
    removed: set[int] = field(default_factory=set)
    ahead: dict[int, int] = field(default_factory=dict)  # nodes' versions that are not imported

    @cached_property
    def inputs(self) -> AbstractSet[str]:
        """Returns the names of the inputs of the graph or function, in order."""
        return _ordered(i if isinstance(i, str) else i.name for i in self.proto.input)

    @property
    def outputs(self) -> AbstractSet[str]:
        """Returns the names of the outputs of the graph or function, in order."""
        return _ordered(o if isinstance(o, str) else o.name for o in self.proto.output)

    @cached_property
    def initializers(self) -> dict[str, TensorProto]:
        """Returns the dense initializers, by name."""
        dense = self.proto.initializer if isinstance(self.proto, GraphProto) else ()
        return {tensor.name: tensor for tensor in dense}

    @cached_property
    def producers(self) -> dict[str, int]:
        """Returns the position of the node that writes each name; steps update the table."""
        return {
            name: i
            for i, node in enumerate(self.proto.node)
            if i not in self.removed
            for name in node.output
            if name
        }

    @cached_property
    def declared(self) -> dict[str, TypeProto]:
        """Returns the types that the graph declares for inputs, outputs and other values."""
        infos = list(self.proto.value_info)
        if isinstance(self.proto, GraphProto):
            infos += [*self.proto.output, *self.proto.input]
        return {i.name: i.type for i in infos if i.HasField("type")}

    def layout_at(self, position: int) -> schemas.Schema | None:
        """Returns the schema of a node of this scope, at the version for which it was written."""
        return self.root.layout_of(self.node(position), self.ahead.get(position))

    @cached_property
    def node_names(self) -> set[str]:
        """Returns the names of the nodes, as they were at the first call."""
        return {node.name for node in self.proto.node if node.name}

    @cached_property
    def repeated_names(self) -> frozenset[str]:
        """Returns the names that several nodes share; runtimes reject them, except on Constants."""
        counts = Counter(node.name for node in self.proto.node if node.name)
        return frozenset(name for name, n in counts.items() if n > 1)

    def node(self, position: int) -> NodeProto:
        return self.proto.node[position]

    def owner(self, name: str) -> Scope | None:
        """Returns the scope that defines a name: this scope or the nearest outer one."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.producers or name in scope.initializers or name in scope.inputs:
                return scope
            if name in scope.sparse:
                return scope
            scope = scope.parent
        return None

    @cached_property
    def sparse(self) -> AbstractSet[str]:
        """Returns the names of the sparse initializers, in order."""
        tensors = () if isinstance(self.proto, FunctionProto) else self.proto.sparse_initializer
        return _ordered(tensor.values.name for tensor in tensors)

    def rename_initializer(self, name: str, new: str) -> TensorProto:
        """Renames a dense initializer; the caller renames its readers."""
        self.initializers[new] = tensor = self.initializers.pop(name)
        tensor.name = new
        if "declared" in vars(self):
            self.declared.pop(name, None)
        return tensor

    def forget(self, names: set[str]) -> None:
        """Removes names from all tables of the scope, after their removal from the graph."""
        self.forget_tables("sparse")
        for kind in ("initializers", "producers", "declared"):
            table: dict[str, Any] = vars(self).get(kind, {})
            for name in names & table.keys():
                del table[name]

    def forget_tables(self, *kinds: str) -> None:
        """Discards tables of names, which the next use makes again."""
        for kind in kinds:
            vars(self).pop(kind, None)

    def chain(self) -> Iterator[Scope]:
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def add_initializer(self, tensor: TensorProto) -> None:
        assert isinstance(self.proto, GraphProto)
        self.proto.initializer.append(tensor)
        added = self.proto.initializer[-1]
        if "initializers" in vars(self):
            self.initializers[tensor.name] = added

    def sorted_positions(self) -> list[int]:
        """Returns the positions of the nodes in the order that `sort` will give them."""
        remaining = (i for i in range(len(self.proto.node)) if i not in self.removed)
        return sorted(remaining, key=lambda i: self.order.get(i) or (i,))

    def sort(self) -> None:
        """Moves nodes that steps appended to their final positions, and deletes removed nodes."""
        if not self.order and not self.removed:
            return
        nodes = self.proto.node
        total = len(nodes)
        # list.sort computes each key once and in order, and upb sorts with list.sort.
        keys = iter([
            (i in self.removed, self.order.get(i) or (i,)) for i in range(total)
        ])  # fmt: skip
        nodes.sort(key=lambda _: next(keys))
        if self.removed:
            del nodes[total - len(self.removed) :]
        self.order, self.removed = {}, set()
        self.forget_tables("producers")


def tensor_type(tensor: TensorProto) -> TypeProto:
    """Returns the type of a tensor."""
    kind = TypeProto()
    kind.tensor_type.elem_type = tensor.data_type
    kind.tensor_type.shape.SetInParent()
    for dim in tensor.dims:
        kind.tensor_type.shape.dim.add().dim_value = dim
    return kind


def sparse_type(sparse: SparseTensorProto) -> TypeProto:
    """Returns the type of a sparse initializer, which operators read as a dense tensor."""
    return tensor_type(TensorProto(data_type=sparse.values.data_type, dims=sparse.dims))


Place: TypeAlias = tuple[Scope, int]


class Imports(Mapping[str, int]):
    """The imported versions of a model or function; `ai.onnx` and '' are the same domain."""

    def __init__(self, protos: Sequence[OperatorSetIdProto], where: str) -> None:
        self._protos: dict[str, list[OperatorSetIdProto]] = {}
        for proto in protos:
            self._protos.setdefault(schemas.normal(proto.domain), []).append(proto)
        for domain, same in self._protos.items():
            require_one_version(domain, (proto.version for proto in same), where)

    def __getitem__(self, domain: str) -> int:
        return self._protos[domain][0].version

    def add(self, proto: OperatorSetIdProto) -> None:
        self._protos[schemas.normal(proto.domain)] = [proto]

    def remove(self, domain: str) -> list[OperatorSetIdProto]:
        """Removes a domain; returns its entries, which the caller removes from the model."""
        return self._protos.pop(domain)

    def __setitem__(self, domain: str, version: int) -> None:
        for proto in self._protos[domain]:
            proto.version = version

    def __iter__(self) -> Iterator[str]:
        return iter(self._protos)

    def __len__(self) -> int:
        return len(self._protos)


@dataclass(slots=True, eq=False)
class Root:
    """A main graph, a function or a training graph, with its subgraphs."""

    kind: str  # "graph", "function" or "training"
    name: str
    imports: Imports
    function: FunctionId | None = None
    index: dict[Key, list[Place]] = field(default_factory=dict)
    calls: dict[FunctionId, list[Place]] = field(default_factory=dict)
    scopes: list[Scope] = field(default_factory=list)
    by_graph: dict[int, Scope] = field(default_factory=dict)

    @property
    def top(self) -> Scope:
        return self.scopes[0]

    @property
    def owns_constants(self) -> bool:
        return self.kind != "function"

    def schema_of(self, node: NodeProto, version: int | None = None) -> schemas.Schema | None:
        """Returns the schema of a node at the imported version or at another; None if unknown."""
        domain = schemas.normal(node.domain)
        version = version or self.imports.get(domain)
        schema = schemas.schema(domain, node.op_type, version) if version else None
        return schema if schema is not None and schema.stated else None

    def layout_of(self, node: NodeProto, version: int | None = None) -> schemas.Schema | None:
        """Returns the schema of a node, even if only the version database has its operator."""
        domain = schemas.normal(node.domain)
        version = version or self.imports.get(domain)
        schema = layouts.layout(domain, node.op_type, version) if version else None
        return schema if schema is not None and schema.stated else None

    def scope_of(self, graph: GraphProto) -> Scope:
        """Returns the scope of a subgraph of this graph or function."""
        return self.by_graph[id(graph)]

    def copy_of(self, graph: GraphProto) -> GraphProto:
        """Copies a subgraph, and moves the nodes that steps appended to their final positions."""
        copy = copy_of(graph)
        self.put_in_order(copy, graph)
        return copy

    def put_in_order(self, copy: Container, graph: Container) -> None:
        """Sorts the nodes in a copy of a graph or function, and in its subgraphs."""
        for there, here in zip(copy.node, graph.node, strict=True):
            if not schemas.may_hold_graphs(here.domain, here.op_type):
                continue
            for (_, inner), (_, original) in zip(graphs_of(there), graphs_of(here), strict=True):
                self.put_in_order(inner, original)
        scope = self.by_graph.get(id(graph))
        if scope is not None:
            Scope(self, copy, None, 0, dict(scope.order), set(scope.removed)).sort()


def shown_function(which: FunctionId) -> str:
    """Returns the domain, name and overload of a function as text, such as `acme::Gated::float`."""
    return "::".join(part for part in which if part)


def call_id(node: NodeProto) -> FunctionId:
    """Returns the domain, name and overload of the function that a node would call."""
    return schemas.normal(node.domain), node.op_type, node.overload
