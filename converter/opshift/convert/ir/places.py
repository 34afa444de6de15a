# SPDX-License-Identifier: Apache-2.0
"""Finds the places of content in a model that an older IR version does not define."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from opshift.author.present_types import TYPE_ATTRIBUTES, element_types
from opshift.model import walk
from opshift.opsets.elements import T
from opshift.protos import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    StringStringEntryProto,
    TensorProto,
    ValueInfoProto,
)

Message: TypeAlias = ModelProto | walk.Container | NodeProto | TensorProto | ValueInfoProto


# -- messages --------------------------------------------------------------------------------------


def of_model(model: ModelProto) -> Iterator[ModelProto]:
    yield model


def nodes(model: ModelProto) -> Iterator[NodeProto]:
    return walk.nodes(model)


def graphs(model: ModelProto) -> Iterator[GraphProto]:
    return (container for container in walk.containers(model) if isinstance(container, GraphProto))


def values(model: ModelProto) -> Iterator[ValueInfoProto]:
    for graph in graphs(model):
        yield from (*graph.input, *graph.output, *graph.value_info)


def tensors(model: ModelProto) -> Iterator[TensorProto]:
    return walk.tensors(model)


def of_functions(model: ModelProto) -> Iterable[FunctionProto]:
    return model.functions


def metadata(model: ModelProto) -> Iterator[tuple[str, Sequence[StringStringEntryProto]]]:
    """Yields parts of a model that have several metadata entries; onnx checks the model's own."""
    for find in (nodes, graphs, values, tensors, of_functions):
        for part in find(model):
            entries: Sequence[StringStringEntryProto] = getattr(part, "metadata_props", ())
            if len(entries) > 1:
                yield words_of(part), entries


def words_of(part: Message) -> str:
    """Returns the kind and the name of a part of a model."""
    if isinstance(part, ModelProto):
        return "the model"
    if isinstance(part, NodeProto):
        return walk.named(part)
    return f"{_KINDS[type(part)]} {part.name!r}"


_KINDS = {
    GraphProto: "graph", ValueInfoProto: "value", TensorProto: "tensor", FunctionProto: "function"
}  # fmt: skip


def with_field(parts: Iterable[Message], field: str) -> Iterator[str]:
    """Yields the kinds and names of the parts of a model in which a field is set."""
    return (words_of(part) for part in parts if getattr(part, field, None))


# -- searches ------------------------------------------------------------------------------------


def nowhere() -> Iterator[str]:
    """Yields nothing, because the content concerns the whole model and has no place."""
    return iter(())


def functions(model: ModelProto, field: str = "name") -> Iterator[str]:
    return with_field(of_functions(model), field)


def sparse_initializers(model: ModelProto) -> Iterator[str]:
    for graph in graphs(model):
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
    for value in values(model):
        if name in element_types(value.type):
            yield words_of(value)
    for graph in graphs(model):
        yield from (f"initializer {t.name!r}" for t in graph.initializer if t.data_type == number)
    for node in walk.nodes(model):
        for attribute in node.attribute:
            asked = attribute.i if attribute.name in TYPE_ATTRIBUTES else attribute.t.data_type
            if asked == number or name in element_types(attribute.tp):
                yield walk.named(node)
