"""Every tensor of a model, wherever one can be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto

HOLDERS = frozenset(
    (
        AttributeProto.UNDEFINED,  # IR 1 left the kind out
        AttributeProto.TENSOR,
        AttributeProto.TENSORS,
        AttributeProto.GRAPH,
        AttributeProto.GRAPHS,
        AttributeProto.SPARSE_TENSOR,
        AttributeProto.SPARSE_TENSORS,
    )
)


def copy_of(model: ModelProto) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(model)
    return copy


def nested_tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Every tensor of the model but the main graph's initializers."""
    for item in nested_items(model):
        if isinstance(item, TensorProto):
            yield item
        else:
            yield from (item.values, item.indices)


def nested_items(model: ModelProto) -> Iterator[TensorProto | SparseTensorProto]:
    yield from items_of_nodes(model.graph.node)
    yield from model.graph.sparse_initializer
    for training in model.training_info:
        yield from _items_of_graph(training.initialization)
        yield from _items_of_graph(training.algorithm)
    for function in model.functions:
        yield from _items_of_attributes(function.attribute_proto)
        yield from items_of_nodes(function.node)


def _items_of_graph(graph: GraphProto) -> Iterator[TensorProto | SparseTensorProto]:
    yield from items_of_nodes(graph.node)
    yield from graph.initializer
    yield from graph.sparse_initializer


def items_of_nodes(nodes: Iterable[NodeProto]) -> Iterator[TensorProto | SparseTensorProto]:
    for node in nodes:
        if attributes := node.attribute:
            yield from _items_of_attributes(attributes)


def _items_of_attributes(
    attributes: Iterable[AttributeProto],
) -> Iterator[TensorProto | SparseTensorProto]:
    for attribute in attributes:
        if attribute.type not in HOLDERS:
            continue
        if attribute.HasField("t"):
            yield attribute.t
        if attribute.HasField("sparse_tensor"):
            yield attribute.sparse_tensor
        yield from attribute.tensors
        yield from attribute.sparse_tensors
        if attribute.HasField("g"):
            yield from _items_of_graph(attribute.g)
        for graph in attribute.graphs:
            yield from _items_of_graph(graph)


def all_tensors(model: ModelProto) -> Iterator[TensorProto]:
    yield from model.graph.initializer
    yield from nested_tensors(model)
