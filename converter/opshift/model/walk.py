# SPDX-License-Identifier: Apache-2.0
"""Walks over a model: visits every field of ONNX's messages that can hold a graph or a tensor.

A test derives these fields from protobuf's descriptors, so that the test fails if a later release
of onnx adds a field. `names.py` does the same for fields with names of values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from opshift.opsets import schemas
from opshift.protos import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
)
from opshift.text import printable

Container: TypeAlias = GraphProto | FunctionProto
Item: TypeAlias = TensorProto | SparseTensorProto

# Kinds of attributes that can hold a tensor or a graph; a test compares the set with the fields.
HOLDERS = frozenset(
    (
        AttributeProto.UNDEFINED,  # IR 1 had no field for the kind
        AttributeProto.TENSOR,
        AttributeProto.TENSORS,
        AttributeProto.GRAPH,
        AttributeProto.GRAPHS,
        AttributeProto.SPARSE_TENSOR,
        AttributeProto.SPARSE_TENSORS,
    )
)


# -- graphs --------------------------------------------------------------------------------------


def graphs_in_attribute(attribute: AttributeProto) -> Iterator[GraphProto]:
    """Yields the subgraphs in an attribute."""
    if attribute.HasField("g"):
        yield attribute.g
    yield from attribute.graphs


def graphs_of(node: NodeProto) -> Iterator[tuple[str, GraphProto]]:
    """Yields the subgraphs of a node, with the names of their attributes."""
    for attribute in node.attribute:
        if attribute.type in HOLDERS:
            for graph in graphs_in_attribute(attribute):
                yield attribute.name, graph


def name_of(node: NodeProto) -> str:
    """Returns the name of a node, or its first output if the node has no name."""
    return node.name or next((o for o in node.output if o), "")


def named(node: NodeProto) -> str:
    """Returns a node's description for a sentence: the operator, and the name or first output."""
    return f"{printable(node.op_type)} {name_of(node)!r}"


def holds_graphs(node: NodeProto) -> bool:
    """Returns whether a node has a subgraph."""
    return any(True for _ in graphs_of(node))


def levels(nodes: Iterable[NodeProto]) -> int:
    """Returns the depth of nested subgraphs in these nodes."""
    holders = [n for n in nodes if schemas.may_hold_graphs(schemas.normal(n.domain), n.op_type)]
    return max((1 + levels(graph.node) for n in holders for _, graph in graphs_of(n)), default=0)


def tops(model: ModelProto) -> Iterator[Container]:
    """Yields the main graph, the functions and the training graphs of a model."""
    yield model.graph
    yield from model.functions
    for training in model.training_info:
        yield training.initialization
        yield training.algorithm


def attributes_of(container: Container) -> Iterator[AttributeProto]:
    """Yields the attributes of the nodes, after the default attributes of a function."""
    yield from _defaults(container)
    for node in container.node:
        yield from node.attribute


def _defaults(container: Container) -> Iterable[AttributeProto]:
    return container.attribute_proto if isinstance(container, FunctionProto) else ()


def graphs_in_defaults(container: Container) -> Iterator[GraphProto]:
    """Yields the subgraphs in the default attributes of a function."""
    for attribute in _defaults(container):
        yield from graphs_in_attribute(attribute)


def graphs_directly_in(container: Container) -> Iterator[GraphProto]:
    """Yields the subgraphs of the nodes of a container, and those in a function's defaults."""
    yield from graphs_in_defaults(container)
    for node in container.node:
        for attribute in node.attribute:
            if attribute.type in HOLDERS:
                yield from graphs_in_attribute(attribute)


def containers_in(container: Container) -> Iterator[Container]:
    """Yields a graph or function, and every subgraph in it at any depth."""
    yield container
    for graph in graphs_directly_in(container):
        yield from containers_in(graph)


def graphs_in(graph: GraphProto, *, nested: bool = True) -> Iterator[GraphProto]:
    """Yields a graph and its subgraphs at any depth; without `nested`, only the graph."""
    yield graph
    for inner in graphs_directly_in(graph) if nested else ():
        yield from graphs_in(inner)


def containers(model: ModelProto) -> Iterator[Container]:
    """Yields every graph and function of a model, at any depth."""
    for top in tops(model):
        yield from containers_in(top)


def nodes(model: ModelProto) -> Iterator[NodeProto]:
    """Yields every node of a model, at any depth."""
    for container in containers(model):
        yield from container.node


def nodes_in(container: Container) -> Iterator[NodeProto]:
    """Yields every node of a graph or function, at any depth."""
    for inner in containers_in(container):
        yield from inner.node


def nodes_inside(node: NodeProto) -> Iterator[NodeProto]:
    """Yields every node of the subgraphs of a node, at any depth."""
    for _, graph in graphs_of(node):
        yield from nodes_in(graph)


# -- tensors -------------------------------------------------------------------------------------


def items(model: ModelProto) -> Iterator[Item]:
    """Yields every tensor and sparse tensor of a model, beginning with the main initializers."""
    yield from model.graph.initializer
    yield from nested_items(model)


def nested_items(model: ModelProto) -> Iterator[Item]:
    """Yields every tensor and sparse tensor of a model except the main graph's initializers."""
    main, *others = tops(model)
    yield from items_in_attributes(attributes_of(main))
    yield from model.graph.sparse_initializer
    for top in others:
        yield from _items_in(top)


def _items_in(container: Container) -> Iterator[Item]:
    yield from items_in_attributes(attributes_of(container))
    if isinstance(container, GraphProto):
        yield from container.initializer
        yield from container.sparse_initializer


def items_in_attributes(attributes: Iterable[AttributeProto]) -> Iterator[Item]:
    """Yields every tensor and sparse tensor in attributes and in their subgraphs."""
    for attribute in attributes:
        if attribute.type not in HOLDERS:
            continue
        if attribute.HasField("t"):
            yield attribute.t
        if attribute.HasField("sparse_tensor"):
            yield attribute.sparse_tensor
        yield from attribute.tensors
        yield from attribute.sparse_tensors
        for graph in graphs_in_attribute(attribute):
            yield from _items_in(graph)


def tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Yields every tensor of a model, beginning with the initializers of its main graph."""
    yield from model.graph.initializer
    yield from nested_tensors(model)


def nested_tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Yields every tensor of a model except the main graph's initializers."""
    for item in nested_items(model):
        if isinstance(item, TensorProto):
            yield item
        else:
            yield from (item.values, item.indices)


# -- names that a node reads ---------------------------------------------------------------------


def reads(node: NodeProto) -> Iterator[str]:
    """Yields the names that a node reads, and the names that its subgraphs capture."""
    yield from node.input
    for _, graph in graphs_of(node):
        yield from captures(graph)


def captures(graph: GraphProto) -> Iterator[str]:
    """Yields the names that a graph reads from outer graphs."""
    defined = set(stated_names(graph))
    for node in graph.node:
        yield from (name for name in reads(node) if name not in defined)
        defined.update(node.output)
    yield from (output.name for output in graph.output if output.name not in defined)


def stated_names(graph: GraphProto) -> Iterator[str]:
    """Yields the names that the inputs and initializers of a graph define."""
    for container in (graph.input, graph.initializer):
        yield from (item.name for item in container)
    yield from (sparse.values.name for sparse in graph.sparse_initializer)


def own_names(container: Container) -> Iterator[str]:
    """Yields the names that a graph or function defines itself."""
    yield from stated_names(container) if isinstance(container, GraphProto) else container.input
    for node in container.node:
        yield from node.output


def defined_names(graph: GraphProto) -> Iterator[str]:
    """Yields the names that a graph and its subgraphs define."""
    for inner in graphs_in(graph):
        yield from own_names(inner)
