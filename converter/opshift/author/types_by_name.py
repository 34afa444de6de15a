# SPDX-License-Identifier: Apache-2.0
"""The types of values by name alone, over all scopes of a model."""

from __future__ import annotations

from opshift.model.walk import graphs_in
from opshift.protos import GraphProto, ModelProto, TypeProto

Inferred = dict[str, TypeProto | None]


def types_in(model: ModelProto) -> Inferred:
    """The types that a graph declares, by name; None if two scopes use one name differently."""
    found: Inferred = {}
    untyped: set[str] = set()
    for graph in graphs_in(model.graph):
        infos = (*graph.value_info, *graph.output, *graph.input)
        typed = {info.name: info.type for info in infos if info.HasField("type")}
        for name, kind in typed.items():
            if found.setdefault(name, kind) != kind:
                found[name] = None
        untyped |= _written_in(graph) - typed.keys()
    found.update(dict.fromkeys(untyped & found.keys()))  # used otherwise elsewhere
    return found


def _written_in(graph: GraphProto) -> set[str]:
    sparse = (one.values for one in graph.sparse_initializer)
    names = {tensor.name for tensor in (*graph.initializer, *sparse)}
    for node in graph.node:
        names.update(node.output)
    return names
