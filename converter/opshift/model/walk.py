# SPDX-License-Identifier: Apache-2.0
"""The one walk over a model: every place of ONNX's messages that can hold a graph or a tensor.

A test derives these places from protobuf's descriptors, so that a field which a later release of
onnx adds makes that test fail. `names.py` does the same for the names of values.
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

Container: TypeAlias = GraphProto | FunctionProto
Item: TypeAlias = TensorProto | SparseTensorProto

# The kinds of attributes that can hold a tensor or a graph; a test compares them with the fields.
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
    """The graphs that an attribute holds."""
    if attribute.HasField("g"):
        yield attribute.g
    yield from attribute.graphs


def graphs_of(node: NodeProto) -> Iterator[tuple[str, GraphProto]]:
    """The graphs that a node holds, with the names of their attributes."""
    for attribute in node.attribute:
        if attribute.type in HOLDERS:
            for graph in graphs_in_attribute(attribute):
                yield attribute.name, graph


def name_of(node: NodeProto) -> str:
    """The name of a node, or its first output if it has no name."""
    return node.name or next((o for o in node.output if o), "")


def named(node: NodeProto) -> str:
    """How a sentence names a node: its operator, and its name or its first output."""
    return f"{node.op_type} {name_of(node)!r}"


def holds_graphs(node: NodeProto) -> bool:
    """Whether a node holds a graph."""
    return any(True for _ in graphs_of(node))


def levels(nodes: Iterable[NodeProto]) -> int:
    """The depth of the nested graphs in these nodes."""
    holders = [n for n in nodes if schemas.may_hold_graphs(schemas.normal(n.domain), n.op_type)]
    return max((1 + levels(graph.node) for n in holders for _, graph in graphs_of(n)), default=0)


def tops(model: ModelProto) -> Iterator[Container]:
    """The outermost graphs and functions of a model."""
    yield model.graph
    yield from model.functions
    for training in model.training_info:
        yield training.initialization
        yield training.algorithm


def attributes_of(container: Container) -> Iterator[AttributeProto]:
    """The attributes of the nodes of a container; before them, the defaults of a function."""
    yield from _defaults(container)
    for node in container.node:
        yield from node.attribute


def _defaults(container: Container) -> Iterable[AttributeProto]:
    return container.attribute_proto if isinstance(container, FunctionProto) else ()


def graphs_in_defaults(container: Container) -> Iterator[GraphProto]:
    """The graphs that the defaults of a function hold."""
    for attribute in _defaults(container):
        yield from graphs_in_attribute(attribute)


def graphs_directly_in(container: Container) -> Iterator[GraphProto]:
    """The graphs that nodes of a container hold, or the defaults of a function."""
    yield from graphs_in_defaults(container)
    for node in container.node:
        for attribute in node.attribute:
            if attribute.type in HOLDERS:
                yield from graphs_in_attribute(attribute)


def containers_in(container: Container) -> Iterator[Container]:
    """A container, and every graph inside it at any depth."""
    yield container
    for graph in graphs_directly_in(container):
        yield from containers_in(graph)


def graphs_in(graph: GraphProto, *, nested: bool = True) -> Iterator[GraphProto]:
    """A graph and all graphs inside it; without `nested`, only the graph."""
    yield graph
    for inner in graphs_directly_in(graph) if nested else ():
        yield from graphs_in(inner)


def containers(model: ModelProto) -> Iterator[Container]:
    """Every graph and function of a model, at any depth."""
    for top in tops(model):
        yield from containers_in(top)


def nodes(model: ModelProto) -> Iterator[NodeProto]:
    """Every node of a model, at any depth."""
    for container in containers(model):
        yield from container.node


def nodes_in(container: Container) -> Iterator[NodeProto]:
    """Every node of a container, at any depth."""
    for inner in containers_in(container):
        yield from inner.node


def nodes_inside(node: NodeProto) -> Iterator[NodeProto]:
    """Every node of the graphs that a node holds, at any depth."""
    for _, graph in graphs_of(node):
        yield from nodes_in(graph)


# -- tensors -------------------------------------------------------------------------------------


def items(model: ModelProto) -> Iterator[Item]:
    """Every tensor and sparse tensor of a model: first the initializers of its graph."""
    yield from model.graph.initializer
    yield from nested_items(model)


def nested_items(model: ModelProto) -> Iterator[Item]:
    """Every tensor and sparse tensor of a model but the initializers of its graph."""
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
    """Every tensor and sparse tensor in attributes and in the graphs that they hold."""
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
    """Every tensor of a model: first the initializers of its graph."""
    yield from model.graph.initializer
    yield from nested_tensors(model)


def nested_tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Every tensor of a model but the initializers of its graph."""
    for item in nested_items(model):
        if isinstance(item, TensorProto):
            yield item
        else:
            yield from (item.values, item.indices)


# -- names that a node reads ---------------------------------------------------------------------


def reads(node: NodeProto) -> Iterator[str]:
    """The names that a node reads, and the names that its subgraphs capture."""
    yield from node.input
    for _, graph in graphs_of(node):
        yield from captures(graph)


def captures(graph: GraphProto) -> Iterator[str]:
    """The names that a graph reads from the graphs around it."""
    own = set(stated_names(graph))
    for node in graph.node:
        yield from (name for name in reads(node) if name not in own)
        own.update(node.output)
    yield from (output.name for output in graph.output if output.name not in own)


def stated_names(graph: GraphProto) -> Iterator[str]:
    """The names that the inputs and initializers of a graph define."""
    for held in (graph.input, graph.initializer):
        yield from (one.name for one in held)
    yield from (sparse.values.name for sparse in graph.sparse_initializer)


def defined_names(graph: GraphProto) -> Iterator[str]:
    """The names that a graph and the graphs inside it define."""
    for inner in graphs_in(graph):
        yield from stated_names(inner)
        for node in inner.node:
            yield from node.output
