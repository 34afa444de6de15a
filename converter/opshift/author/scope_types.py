# SPDX-License-Identifier: Apache-2.0
"""Collects the declared or inferred types of a model, by the graph of each value."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from opshift.model.scope import Scope, tensor_type
from opshift.model.walk import graphs_of, stated_names
from opshift.protos import GraphProto, ModelProto, NodeProto, TypeProto

Inferred: TypeAlias = dict[str, TypeProto | None]
Path: TypeAlias = tuple[tuple[str, int], ...]
NO_PATH: Path = (("", -1),)


class GraphTypes(NamedTuple):
    """The types of the values that one graph can read; None for an unknown type."""

    graph: GraphProto
    path: Path  # for each outer node: its first output, and the number of the subgraph
    visible: ChainMap[str, TypeProto | None]

    @property
    def own(self) -> Inferred:
        """Returns the types of the values that the graph itself defines."""
        return self.visible.maps[0]  # type: ignore[return-value]


def by_graph(
    model: ModelProto, *, initializers: bool = False, nested: bool = True
) -> list[GraphTypes]:
    """Returns the types in the graphs of a model, in the order of `walk.graphs_in`.

    With `initializers`, the result includes the types of initializers that are not inputs. Without
    `nested`, the caller guarantees that no node has a subgraph, and the result lists no value of
    unknown type.
    """
    scopes = list(_inside(model.graph, (), ChainMap(), nested=nested))
    for scope in scopes if initializers else ():
        scope.own.update((tensor.name, tensor_type(tensor)) for tensor in scope.graph.initializer)
    return scopes


def by_name(scopes: Iterable[GraphTypes]) -> Inferred:
    """Returns the types by name; None if two graphs use a name for different types."""
    types: Inferred = {}
    untyped: set[str] = set()
    scopes = list(scopes)
    if len(scopes) == 1:
        return {name: kind for name, kind in scopes[0].own.items() if kind is not None}
    for scope in scopes:
        for name, kind in scope.own.items():
            if kind is None:
                untyped.add(name)
            elif types.setdefault(name, kind) != kind:
                types[name] = None
    types.update(dict.fromkeys(untyped & types.keys()))  # the same name is typed elsewhere
    return types


def paths_inside(scope: Scope, path: Path) -> Iterator[tuple[Scope, Path]]:
    """Yields the subgraphs of the nodes of one graph, with the path of each."""
    for node in scope.proto.node:
        for i, (_, graph) in enumerate(graphs_of(node)):
            if (inner := scope.root.by_graph.get(id(graph))) is not None:
                yield inner, (*path, _step(node, i))


def _step(node: NodeProto, number: int) -> tuple[str, int]:
    """Identifies a subgraph by the first output of its node, and by its number in the node."""
    return next((name for name in node.output if name), ""), number


def _inside(
    graph: GraphProto, path: Path, around: ChainMap[str, TypeProto | None], *, nested: bool = True
) -> Iterator[GraphTypes]:
    own_types = _types_of(graph) if nested else _stated_types(graph)
    visible = ChainMap(own_types, *around.maps) if path else ChainMap(own_types)
    yield GraphTypes(graph, path, visible)
    for node in graph.node if nested else ():
        for i, (_, inner) in enumerate(graphs_of(node)):
            yield from _inside(inner, (*path, _step(node, i)), visible)


def _types_of(graph: GraphProto) -> Inferred:
    """Returns the types of the values that a graph defines."""
    types: Inferred = dict.fromkeys(stated_names(graph))
    types.update(dict.fromkeys([name for node in graph.node for name in node.output]))
    stated = _stated_types(graph)
    types.update((name, kind) for name, kind in stated.items() if name in types)
    return types


def _stated_types(graph: GraphProto) -> Inferred:
    """Returns the types that a graph states for its values."""
    infos = (*graph.value_info, *graph.output, *graph.input)
    return {info.name: info.type for info in infos if info.HasField("type")}
