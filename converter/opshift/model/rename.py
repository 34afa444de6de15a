"""Other names for values, in a node and in what its subgraphs capture."""

from __future__ import annotations

from collections.abc import Mapping

from onnx import GraphProto, NodeProto

from opshift.model.walk import graphs_of


def rename(node: NodeProto, names: Mapping[str, str]) -> None:
    """Replaces value names in a node and, where its subgraphs capture them, inside."""
    for field_ in (node.input, node.output):
        for i, name in enumerate(field_):
            if name in names:
                field_[i] = names[name]
    for _, graph in graphs_of(node):
        _rename_graph(graph, names)


def _rename_graph(graph: GraphProto, names: Mapping[str, str]) -> None:
    own = {i.name for i in graph.input} | {t.name for t in graph.initializer}
    own.update(name for node in graph.node for name in node.output)
    seen = {old: new for old, new in names.items() if old not in own}
    if seen:
        for node in graph.node:
            rename(node, seen)
        for output in graph.output:
            output.name = seen.get(output.name, output.name)
