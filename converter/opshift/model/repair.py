# SPDX-License-Identifier: Apache-2.0
"""Repairs faults of a model that runtimes accept and onnx's checker rejects."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from google.protobuf.message import Message

from opshift.model import imports
from opshift.model.names import free_name
from opshift.model.scope import tensor_type
from opshift.model.walk import Container, containers, nodes, nodes_in, reads
from opshift.model.weights import Weights
from opshift.opsets import schemas
from opshift.opsets.types import rank_of
from opshift.protos import (
    AttributeProto,
    GraphProto,
    ModelProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
    helper,
)
from opshift.text import counted, shortened

FIRST_WITH_IMPORTS = 3  # the first IR version in which a model lists its imports
FIRST_WITH_CONSTANTS = 4  # the first IR version in which an initializer need not be an input
UNNAMED = "graph"
SORTED = "sorted the nodes, which were not in topological order"

_KINDS = {field: kind for kind, field in (helper.FIELDS | helper.LISTS).items()}


def before_opening(model: ModelProto) -> list[str]:
    """Upgrades IR 1 and 2 to IR 3: adds the import of opset 1 and the attribute types."""
    before = model.ir_version
    if not 0 < before < FIRST_WITH_IMPORTS:
        return []
    notes = [f"raised IR {before} to {FIRST_WITH_IMPORTS}, the first IR with operator sets"]
    if not model.opset_import:
        model.opset_import.add(version=1)
        notes.append(f"added the import of ai.onnx 1, which IR {before} implies")
    for node in nodes(model):
        for attribute in node.attribute:
            if attribute.type == AttributeProto.UNDEFINED:
                attribute.type = _kind(attribute)  # type: ignore[assignment]
    model.ir_version = FIRST_WITH_IMPORTS
    return notes


def bare_initializers(model: ModelProto) -> list[str]:
    """Makes every initializer a graph input, which IR 3 requires and runtimes do not require."""
    graph = model.graph
    if not 0 < model.ir_version < FIRST_WITH_CONSTANTS:
        return []
    inputs = {value.name for value in graph.input}
    bare = [tensor for tensor in graph.initializer if tensor.name not in inputs]
    graph.input.extend(
        ValueInfoProto(name=initializer.name, type=tensor_type(initializer)) for initializer in bare
    )
    text = counted(len(bare), "initializer is now an input", "initializers are now inputs")
    return [f"{text}, as IR {model.ir_version} requires"] if bare else []


def rejected(model: ModelProto, weights: Weights) -> list[str]:
    """Repairs known faults of a model that the checker rejects; returns notes about the repairs."""
    return [*_names(model), *_spelling(model), *_imports(model), *_duplicates(model, weights)]


def _kind(attribute: AttributeProto) -> int:
    """Returns the type of an attribute by the field that holds its value."""
    names = (field.name for field, _ in attribute.ListFields())
    return next((_KINDS[name] for name in names if name in _KINDS), AttributeProto.UNDEFINED)


def _spelling(model: ModelProto) -> Iterator[str]:
    """Replaces the domain 'ai.onnx' by '', because the checker rejects the long name."""
    entries_of_owners = [entry for owner in imports.owners(model) for entry in owner.opset_import]
    for what, entries in (("nodes", nodes(model)), ("imports", entries_of_owners)):
        spelled = [entry for entry in entries if entry.domain == "ai.onnx"]
        for entry in spelled:
            entry.domain = ""
        if spelled:
            text = f"the domain 'ai.onnx' of {counted(len(spelled), what[:-1])} was replaced by ''"
            yield f"{text}, the name of the default domain that the checker accepts"


def _imports(model: ModelProto) -> Iterator[str]:
    """Adds the missing import of a domain that has only one version."""
    used = {schemas.normal(node.domain) for node in nodes_in(model.graph)}
    for domain in sorted(used - imports.versions(model).keys()):
        if schemas.latest(domain) == 1:
            model.opset_import.add(domain=domain, version=1)
            yield f"nodes use {domain} without an import; added the import of its only version, 1"


def _names(model: ModelProto) -> Iterator[str]:
    graphs = [container for container in containers(model) if isinstance(container, GraphProto)]
    used, added = {graph.name for graph in graphs}, []
    for graph in graphs:
        if not graph.name and (graph.node or graph.output):
            graph.name = free_name(UNNAMED, used, first=2) if UNNAMED in used else UNNAMED
            used.add(graph.name)
            added.append(graph.name)
    if added:
        more = f" to {added[-1]!r}" if len(added) > 1 else ""
        yield f"{counted(len(added), 'graph')} without a name got the name {added[0]!r}{more}"


def _duplicates(model: ModelProto, weights: Weights) -> Iterator[str]:
    """Removes an initializer or a function that has the name and content of another."""
    graph = model.graph
    for what, container, named in (
        ("initializer", graph.initializer, lambda item: item.name),
        ("function", model.functions, lambda item: (item.domain, item.name, item.overload)),
    ):
        names = [named(message) for message in container]
        count = Counter(names)
        if len(count) == len(names):
            continue
        first_by_key: dict[object, Message] = {}
        repeated = []
        for i, (name, message) in enumerate(zip(names, container, strict=True)):
            if count[name] > 1 and _is_equal(
                first_by_key.setdefault(name, message), message, weights
            ):
                repeated.append(i)
        for i in reversed(repeated):
            yield f"{what} {names[i]!r} occurred twice with equal content; one of them was removed"
            del container[i]


def _is_equal(first: Message, second: Message, weights: Weights) -> bool:
    """Returns whether another initializer or function has equal content."""
    if first is second:
        return False
    if isinstance(first, TensorProto) and isinstance(second, TensorProto):
        return weights.is_equal(first, second)
    return first.SerializeToString(deterministic=True) == second.SerializeToString(
        deterministic=True
    )


def sort_nodes(model: ModelProto) -> bool:
    """Sorts every unsorted graph and function; returns whether any of them was unsorted.

    Nodes that can stay in their order keep it. A graph with a cycle is not changed, so that onnx's
    checker reports it.
    """
    inner_first = reversed(list(containers(model)))  # inner first: sorting needs their captures
    return sum([_sort(container) for container in inner_first]) > 0


def _sort(container: Container) -> bool:
    order = sorted_positions(container)
    if order is None or order == list(range(len(order))):
        return False
    rank = {position: i for i, position in enumerate(order)}
    positions = iter(range(len(order)))
    container.node.sort(key=lambda _: rank[next(positions)])
    return True


def sorted_positions(container: Container) -> list[int] | None:
    """Returns the positions of nodes in topological order, lowest first; None for a cycle."""
    writers = {name: i for i, node in enumerate(container.node) for name in node.output if name}
    waits_for = [
        {writers[name] for name in reads(node) if name in writers} for node in container.node
    ]
    readers: dict[int, list[int]] = {}
    for i, needed in enumerate(waits_for):
        for writer in needed:
            readers.setdefault(writer, []).append(i)
    ready = [i for i, needed in enumerate(waits_for) if not needed]
    order = []
    while ready:
        position = heapq.heappop(ready)
        order.append(position)
        for reader in readers.get(position, ()):
            waits_for[reader].discard(position)
            if not waits_for[reader]:
                heapq.heappush(ready, reader)
    return order if len(order) == len(waits_for) else None


def add_types(model: ModelProto, infer: Callable[[], ModelProto | None]) -> list[str]:
    """Adds missing types and shapes of model inputs and outputs; returns their names."""
    vague = [v for v in (*model.graph.input, *model.graph.output) if is_vague(v.type)]
    inferred = infer() if vague else None
    if inferred is None:
        return []
    graph = inferred.graph
    types = {v.name: v.type for v in (*graph.output, *graph.value_info, *graph.input)}
    added = []
    for value in vague:
        kind = types.get(value.name)
        if kind is not None and not is_vague(kind):
            value.type.CopyFrom(kind)
            added.append(value.name)
    return added


def remove_shapes(model: ModelProto, names: Sequence[str]) -> bool:
    """Removes the shapes of the named outputs; returns whether there were any."""
    shaped = [
        value.type.tensor_type
        for value in model.graph.output
        if value.name in names and value.type.tensor_type.HasField("shape")
    ]
    for kind in shaped:
        kind.ClearField("shape")
    return bool(shaped)


def left_vague(model: ModelProto) -> list[str]:
    """Returns a note that lists the inputs and outputs of unknown rank or type."""
    names = [v.name for v in (*model.graph.input, *model.graph.output) if is_vague(v.type)]
    text = f"the type or shape of {first_names(names)} is missing, and inference finds none"
    return [text] if names else []


def first_names(names: Sequence[str]) -> str:
    """Returns the first names of a list, and the number of the other names."""
    return shortened(list(map(repr, names)), 4)


def is_vague(kind: TypeProto) -> bool:
    """Returns whether the element type or the rank is unknown."""
    if schemas.type_name(kind) is None:
        return True
    return kind.HasField("tensor_type") and rank_of(kind) is None
