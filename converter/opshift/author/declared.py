# SPDX-License-Identifier: Apache-2.0
"""Handles declared types of computed values, which are used only if inference finds less."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from opshift.model.names import bound_names
from opshift.model.scope import tensor_type
from opshift.model.walk import graphs_in
from opshift.opsets import schemas
from opshift.opsets.types import dims_of, rank_of, tensors_in, without_lengths
from opshift.protos import GraphProto, ModelProto, TypeProto, ValueInfoProto
from opshift.protos.copies import as_model, copied, copy_of


def completed(inferred: TypeProto | None, declared: TypeProto | None) -> TypeProto | None:
    """Completes an inferred type with the declared element type and rank."""
    if declared is None or (inferred is not None and not _adds(inferred, declared)):
        return inferred
    # A runtime rejects a wrong declared element type, but not a wrong declared length. Exporters
    # leave wrong lengths behind when they make a fixed dimension dynamic.
    claim = without_lengths(declared)
    if inferred is None or (schemas.type_name(inferred) is None and rank_of(inferred) is None):
        return claim
    merged = copy_of(inferred)
    if not merged.tensor_type.elem_type:
        merged.tensor_type.elem_type = claim.tensor_type.elem_type
    elif not merged.tensor_type.HasField("shape"):
        merged.tensor_type.shape.CopyFrom(claim.tensor_type.shape)
    return merged


def _adds(inferred: TypeProto, declared: TypeProto) -> bool:
    """Returns whether the declared type has an element type or rank that inference did not find."""
    if schemas.type_name(inferred) is None:
        return schemas.type_name(declared) is not None or rank_of(declared) is not None
    return inferred.HasField("tensor_type") and rank_of(inferred) is None is not rank_of(declared)


def without(model: bytes | ModelProto, *, nested: bool = True) -> ModelProto:
    """Copies a model without shapes of computed values, and without replaceable initializers."""
    copy = copied(model)
    for i, graph in enumerate(graphs_in(copy.graph, nested=nested)):
        for value in (*graph.output, *(graph.input if i else ())):
            for tensor in tensors_in(value.type):  # inference needs the element types
                tensor.ClearField("shape")
        del graph.value_info[:]
    _forget_replaceable(copy)
    return copy


def _forget_replaceable(model: ModelProto) -> None:
    """Turns initializers that callers or training can set into graph inputs with their types."""
    graph = model.graph
    inputs = {value.name for value in graph.input}
    changed = bound_names(model) | (inputs if model.ir_version > 3 else set())
    for i in range(len(graph.initializer) - 1 if changed else -1, -1, -1):
        tensor = graph.initializer[i]
        if tensor.name in changed:
            if tensor.name not in inputs:
                graph.input.add(name=tensor.name).type.CopyFrom(tensor_type(tensor))
            del graph.initializer[i]


class LackingType(NamedTuple):
    """A declared type that inference did not find, with its graph and value."""

    graph: GraphProto
    name: str
    found: ValueInfoProto | None
    kind: TypeProto


def lacking(
    inferred: ModelProto, original: bytes | ModelProto, *, nested: bool = True
) -> list[LackingType]:
    """Finds the declared types that inference did not find."""
    model = as_model(original)
    lacks = []
    graphs = (graphs_in(one.graph, nested=nested) for one in (inferred, model))
    for i, (graph, declared) in enumerate(zip(*graphs, strict=True)):
        infos = {one.name: one for one in (*graph.value_info, *graph.output, *graph.input)}
        for value in computed(declared, nested=i > 0):
            inferred_info = infos.get(value.name)
            has = (
                inferred_info.type
                if inferred_info is not None and inferred_info.HasField("type")
                else None
            )
            more = completed(has, value.type)
            if more is not None and more != has:
                lacks.append(LackingType(graph, value.name, inferred_info, more))
    return lacks


def restore(lacks: Iterable[LackingType]) -> None:
    """Writes the declared types that inference did not find into the inferred model."""
    for graph, name, inferred, kind in lacks:
        place = inferred if inferred is not None else graph.value_info.add(name=name)
        place.type.CopyFrom(kind)


def computed(graph: GraphProto, *, nested: bool) -> Iterator[ValueInfoProto]:
    """Yields the declared types of the values that nodes of a graph compute."""
    values: Iterable[ValueInfoProto] = (*graph.value_info, *graph.output)
    names = {tensor.name for tensor in graph.initializer}
    if not nested:
        names.update(value.name for value in graph.input)
    for value in (*values, *graph.input) if nested else values:
        if value.HasField("type") and value.name not in names:
            yield value


def correct(
    graph: GraphProto,
    inferred: Callable[[str], TypeProto | None],
    symbols: frozenset[str],
    *,
    nested: bool,
) -> Iterator[str]:
    """Corrects declared shapes that contradict the inferred shapes; yields the names of the values.

    A runtime allocates memory by the declared shapes, and fails if a shape is too small.
    """
    for value in computed(graph, nested=nested):
        kind = inferred(value.name)
        if kind is not None and _contradicts(value.type, kind, symbols):
            value.type.tensor_type.shape.CopyFrom(kind.tensor_type.shape)
            yield value.name


def _contradicts(declared: TypeProto, inferred: TypeProto, symbols: frozenset[str]) -> bool:
    if rank_of(inferred) is None or rank_of(declared) is None:
        return False
    actual, stated = dims_of(inferred), dims_of(declared)
    return len(actual) != len(stated) or any(
        isinstance(b, int) and a != b and (isinstance(a, int) or a in symbols)
        for a, b in zip(actual, stated, strict=True)
    )
