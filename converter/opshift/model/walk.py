"""Everything there is in a model: graphs and functions, nodes, tensors, at any depth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onnx import GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto

from opshift.model.scope import Container, graphs_of, may_hold_graphs


def containers(model: ModelProto) -> Iterator[Container]:
    """Every graph and function of a model, at any depth."""
    tops: list[Container] = [model.graph, *model.functions]
    for training in model.training_info:
        tops += [training.initialization, training.algorithm]
    waiting = tops[::-1]
    while waiting:
        container = waiting.pop()
        yield container
        waiting += [graph for node in container.node for _, graph in graphs_of(node)]


def graphs_in(graph: GraphProto) -> Iterator[GraphProto]:
    """A graph, and every graph inside of it."""
    yield graph
    for node in graph.node:
        if may_hold_graphs((node.domain, node.op_type)):
            for _, inner in graphs_of(node):
                yield from graphs_in(inner)


def nodes(model: ModelProto) -> Iterator[NodeProto]:
    """Every node of a model, at any depth."""
    for container in containers(model):
        yield from container.node


def tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Every tensor of a model: initializers, and what attributes hold."""
    for container in containers(model):
        if isinstance(container, GraphProto):
            yield from container.initializer
            yield from _sparse_parts(container.sparse_initializer)
        for node in container.node:
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    yield attribute.t
                yield from attribute.tensors
                yield from _sparse_parts(attribute.sparse_tensors)
                if attribute.HasField("sparse_tensor"):
                    yield from _sparse_parts([attribute.sparse_tensor])


def _sparse_parts(found: Iterable[SparseTensorProto]) -> Iterator[TensorProto]:
    for sparse in found:
        yield sparse.values
        yield sparse.indices
