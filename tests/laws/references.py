# SPDX-License-Identifier: Apache-2.0
"""Finds the definition of each name by the scoping rules of ONNX, without the engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from onnx import FunctionProto, ModelProto


@dataclass
class Graph:
    """One graph or function, the outer graph, and the names that are read."""

    proto: Any
    around: Graph | None
    defined: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)
    undefined: set[str] = field(default_factory=set)

    def reads(self, name: str) -> None:
        graph: Graph | None = self
        while graph is not None and name not in graph.defined:
            graph = graph.around
        if graph is None:
            self.undefined.add(name)
        else:
            graph.read.add(name)


def opened(model: ModelProto) -> list[Graph]:
    """Returns all graphs and functions of a model; a training algorithm extends the main graph."""
    found: list[Graph] = []
    main = _open(model.graph, None, found)
    for function in model.functions:
        _open(function, None, found)
    for training in model.training_info:
        first = _open(training.initialization, None, found)
        step = _open(training.algorithm, main, found)
        for bindings, source in (
            (training.initialization_binding, first), (training.update_binding, step)
        ):  # fmt: skip
            for entry in bindings:
                step.reads(entry.key)
                source.reads(entry.value)
    return found


def _open(proto: Any, around: Graph | None, found: list[Graph]) -> Graph:
    graph = Graph(proto, around)
    found.append(graph)
    graph.defined.update(value if isinstance(value, str) else value.name for value in proto.input)
    if not isinstance(proto, FunctionProto):
        graph.defined.update(tensor.name for tensor in proto.initializer)
        graph.defined.update(sparse.values.name for sparse in proto.sparse_initializer)
    for node in proto.node:
        graph.defined.update(node.output)
    for node in proto.node:
        for name in filter(None, node.input):
            graph.reads(name)
        for attribute in node.attribute:
            inner = [attribute.g] if attribute.HasField("g") else []
            for one in (*inner, *attribute.graphs):
                _open(one, graph, found)
    for one in proto.output:
        graph.reads(one if isinstance(one, str) else one.name)
    for note in getattr(proto, "quantization_annotation", ()):
        for entry in note.quant_parameter_tensor_names:
            graph.reads(entry.value)
    return graph


def unread(model: ModelProto) -> set[tuple[str, ...]]:
    """Returns the outputs of each node whose outputs are all unread."""
    return {
        tuple(node.output)
        for graph in opened(model)
        for node in graph.proto.node
        if not graph.read.intersection(filter(None, node.output))
    }


def unread_constants(model: ModelProto) -> set[str]:
    """Returns the initializers that are not read."""
    return {
        tensor.name
        for graph in opened(model)
        for tensor in getattr(graph.proto, "initializer", ())
        if tensor.name not in graph.read
    }


def dangling(model: ModelProto) -> set[str]:
    """Returns, in words, each reference to a value that does not exist."""
    return {told for graph in opened(model) for told in _dangling(graph)}


def _dangling(graph: Graph) -> Iterator[str]:
    yield from (f"{name!r} is read" for name in graph.undefined)
    for value in getattr(graph.proto, "value_info", ()):
        if value.name not in graph.defined:
            yield f"value_info states the type of {value.name!r}"
    for note in getattr(graph.proto, "quantization_annotation", ()):
        if note.tensor_name not in graph.defined:
            yield f"an annotation describes {note.tensor_name!r}"
    for node in graph.proto.node:
        for configuration in getattr(node, "device_configurations", ()):
            for spec in configuration.sharding_spec:
                if spec.tensor_name not in (*node.input, *node.output):
                    yield f"{node.op_type} has a sharding of {spec.tensor_name!r}"
