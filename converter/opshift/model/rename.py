# SPDX-License-Identifier: Apache-2.0
"""Renames values in nodes, subgraphs and annotations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from google.protobuf.message import Message

from opshift.model.walk import Container, graphs_of, own_names
from opshift.protos import GraphProto, NodeProto, TensorProto, ValueInfoProto


def rename(node: NodeProto, names: Mapping[str, str]) -> None:
    """Renames values in a node and in those of its subgraphs that capture them."""
    rename_own(node, names)
    for _, graph in graphs_of(node):
        _rename_graph(graph, names)


def rename_own(node: NodeProto, names: Mapping[str, str]) -> None:
    """Renames the values that a node reads or writes, and the values in its shardings."""
    for field in (node.input, node.output):
        for i, name in enumerate(field):
            if name in names:
                field[i] = names[name]
    for configuration in getattr(node, "device_configurations", ()):
        for spec in configuration.sharding_spec:
            rename_field(spec, "tensor_name", names)


def rename_field(message: Message, field: str, names: Mapping[str, str]) -> None:
    """Renames the value whose name a field of a message contains."""
    if (name := getattr(message, field)) in names:
        setattr(message, field, names[name])


def rename_annotations(graph: GraphProto, names: Mapping[str, str]) -> None:
    """Renames the values in the quantization annotations of a graph."""
    for note in graph.quantization_annotation:
        rename_field(note, "tensor_name", names)
        for entry in note.quant_parameter_tensor_names:
            rename_field(entry, "value", names)


def rename_defined(graph: GraphProto, names: Mapping[str, str]) -> None:
    """Renames values that a graph defines, where it defines them and wherever they are read."""
    for node in graph.node:
        rename(node, names)
    rename_described(graph, names)


def rename_described(container: Container, names: Mapping[str, str]) -> None:
    """Renames the values that a graph or function describes outside of its nodes."""
    for message in described(container):
        rename_field(message, "name", names)
    if isinstance(container, GraphProto):
        rename_annotations(container, names)


def described(container: Container) -> Iterator[TensorProto | ValueInfoProto]:
    """Yields the messages outside of nodes that have the name of a value."""
    if isinstance(container, GraphProto):
        yield from container.input
        yield from container.initializer
        yield from (sparse.values for sparse in container.sparse_initializer)
        yield from container.output
    yield from container.value_info


def _rename_graph(graph: GraphProto, names: Mapping[str, str]) -> None:
    defined = set(own_names(graph))
    visible = {old: new for old, new in names.items() if old not in defined}
    if visible:
        for node in graph.node:
            rename(node, visible)
        for output in graph.output:
            rename_field(output, "name", visible)
        rename_annotations(graph, visible)
