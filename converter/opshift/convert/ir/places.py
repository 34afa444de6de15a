# SPDX-License-Identifier: Apache-2.0
"""Finds the places of content in a model that an older IR version does not define."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from opshift.author.present_types import TYPE_ATTRIBUTES, element_types
from opshift.model import walk
from opshift.opsets.elements import T
from opshift.protos import (
    GraphProto,
    ModelProto,
    NodeProto,
    StringStringEntryProto,
    TensorProto,
    ValueInfoProto,
)

Message: TypeAlias = ModelProto | walk.Container | NodeProto | TensorProto | ValueInfoProto
Placed: TypeAlias = Iterator[tuple[str, Message]]


# -- messages, each with a description of its place -------------------------------------------


def of_model(model: ModelProto) -> Placed:
    yield "the model", model


def nodes(model: ModelProto) -> Placed:
    return ((walk.named(node), node) for node in walk.nodes(model))


def graphs(model: ModelProto) -> Placed:
    return ((f"graph {graph.name!r}", graph) for graph in _graphs(model))


def values(model: ModelProto) -> Iterator[tuple[str, ValueInfoProto]]:
    for graph in _graphs(model):
        for value in (*graph.input, *graph.output, *graph.value_info):
            yield f"value {value.name!r}", value


def tensors(model: ModelProto) -> Placed:
    return ((f"tensor {tensor.name!r}", tensor) for tensor in walk.tensors(model))


def of_functions(model: ModelProto) -> Placed:
    return ((f"function {function.name!r}", function) for function in model.functions)


def metadata(model: ModelProto) -> Iterator[tuple[str, Sequence[StringStringEntryProto]]]:
    """Yields parts of a model that have several metadata entries; onnx checks the model's own."""
    for placed in (nodes, graphs, values, tensors, of_functions):
        for words, part in placed(model):
            entries: Sequence[StringStringEntryProto] = getattr(part, "metadata_props", ())
            if len(entries) > 1:
                yield words, entries


def with_field(placed: Iterable[tuple[str, Message]], field: str) -> Iterator[str]:
    """Yields the descriptions of protobuf messages in which a field is set."""
    return (words for words, part in placed if getattr(part, field, None))


# -- searches ------------------------------------------------------------------------------------


def nowhere() -> Iterator[str]:
    """Yields nothing, because the content concerns the whole model and has no place."""
    return iter(())


def functions(model: ModelProto, field: str = "name") -> Iterator[str]:
    return with_field(of_functions(model), field)


def sparse_initializers(model: ModelProto) -> Iterator[str]:
    for graph in _graphs(model):
        yield from (f"initializer {sparse.values.name!r}" for sparse in graph.sparse_initializer)


def external_tensors(model: ModelProto) -> Iterator[str]:
    return with_field(tensors(model), "external_data")


def attributes(model: ModelProto, *kinds: int) -> Iterator[str]:
    """Yields nodes with an attribute of certain kinds, given as AttributeProto numbers."""
    for node in walk.nodes(model):
        if any(attribute.type in kinds for attribute in node.attribute):
            yield walk.named(node)


def of_type(model: ModelProto, name: str) -> Iterator[str]:
    """Yields values, initializers and nodes that use an element type or a container."""
    number = T[name.upper()] if name.upper() in T.__members__ else None
    for words, value in values(model):
        if name in element_types(value.type):
            yield words
    for graph in _graphs(model):
        yield from (f"initializer {t.name!r}" for t in graph.initializer if t.data_type == number)
    for node in walk.nodes(model):
        for attribute in node.attribute:
            asked = attribute.i if attribute.name in TYPE_ATTRIBUTES else attribute.t.data_type
            if asked == number or name in element_types(attribute.tp):
                yield walk.named(node)


def _graphs(model: ModelProto) -> Iterator[GraphProto]:
    return (container for container in walk.containers(model) if isinstance(container, GraphProto))
