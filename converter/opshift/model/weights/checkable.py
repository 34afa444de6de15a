# SPDX-License-Identifier: Apache-2.0
"""Prepares a skeleton for onnx's checker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from math import prod

from google.protobuf.message import Message

from opshift.errors import InvalidModel
from opshift.lazy import numpy as np
from opshift.model import walk
from opshift.model.arrays import as_tensor
from opshift.model.bytes import wire
from opshift.model.scope import tensor_type
from opshift.model.weights.inplace import delete_others
from opshift.model.weights.payloads import EXTERNAL_FIELD, EXTERNAL_KEY, Weights, marker_of
from opshift.opsets.elements import ELEMENTS
from opshift.opsets.types import LARGEST_RANK
from opshift.protos import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    ValueInfoProto,
)
from opshift.protos.copies import copied


def checkable(
    skeleton: ModelProto, data: bytes = b"", weights: Weights | None = None
) -> bytes | ModelProto:
    """Turns large tensors of a skeleton into graph inputs, for checks that read no weights.

    The parameter `data` is the serialized skeleton, if the caller has it. With `weights`, the
    checks see external data that inference reads: short integer tensors and indices of sparse
    tensors.
    """
    data = data or skeleton.SerializeToString(deterministic=True)
    if weights is not None and weights.locations:
        loaded = _with_short_integers(skeleton, weights)
        if loaded is not None:
            skeleton, data = loaded, loaded.SerializeToString(deterministic=True)
    count = data.count(wire.MARK_KEY) + data.count(EXTERNAL_KEY)
    if not count and EXTERNAL_FIELD not in data:
        return data
    stubs = [t for t in skeleton.graph.initializer if Weights.is_stub(t)]
    if not count and not stubs:
        return data
    constants = [*_large_constants(skeleton.graph)] if count > len(stubs) else []
    large = [*(value for _, value in constants), *stubs]
    nested = data.count(wire.MARK_KEY) != sum(marker_of(t) is not None for t in large)
    if not nested and count == len(large) and _are_unique(skeleton.graph, constants):
        inputs = {value.name for value in skeleton.graph.input}
        named = [(node.output[0], value) for node, value in constants]
        named += [(t.name, t) for t in stubs if t.name not in inputs]
        shown = GraphProto(input=[ValueInfoProto(name=n, type=tensor_type(t)) for n, t in named])
        fields = [wire.framed(1, _encoded(node)) for node, _ in constants]
        fields += [wire.framed(5, _encoded(stub)) for stub in stubs]
        cut = _cut(data, fields, _encoded(shown))
        if cut is not None:
            return cut
    view = copied(skeleton)
    _hoist_all(view)
    hoisted = _encoded(view)
    if wire.MARK_KEY not in hoisted and EXTERNAL_FIELD not in hoisted:
        return hoisted
    _fill(view, weights)
    return view


def _encoded(message: Message) -> bytes:
    return message.SerializeToString(deterministic=True)


def _large_constants(graph: GraphProto) -> Iterator[tuple[NodeProto, TensorProto]]:
    """Yields the Constants of a graph without their payloads, with their tensors."""
    for node in graph.node:
        if (value := _constant(node)) is not None:
            yield node, value


def _are_unique(graph: GraphProto, constants: Collection[tuple[NodeProto, TensorProto]]) -> bool:
    """Returns whether initializers have distinct names, and no value has a Constant's name."""
    if len({tensor.name for tensor in graph.initializer}) < len(graph.initializer):
        return False
    names = Counter(walk.own_names(graph)) if constants else Counter[str]()
    return all(names[node.output[0]] == 1 for node, _ in constants)


def _with_short_integers(skeleton: ModelProto, weights: Weights) -> ModelProto | None:
    """Copies a skeleton and loads its short external integer tensors, such as shapes and axes.

    Returns None if there are none, or if their data files are missing.
    """
    if not any(_is_short(tensor, weights) for tensor in walk.tensors(skeleton)):
        return None
    loaded = copied(skeleton)
    for tensor in walk.tensors(loaded):
        if _is_short(tensor, weights):
            _zero(tensor, as_tensor(weights.load(tensor), tensor.data_type).raw_data)
    return loaded


def _is_short(tensor: TensorProto, weights: Weights) -> bool:
    return (
        tensor.data_location == TensorProto.EXTERNAL
        and tensor.data_type in (TensorProto.INT32, TensorProto.INT64)
        and len(tensor.dims) <= 1
        and 0 <= prod(tensor.dims) <= LARGEST_RANK
        and weights.has(tensor)
    )


def with_payloads(view: ModelProto, skeleton: ModelProto) -> ModelProto:
    """Copies a model, and turns the inputs that this module added back into large tensors."""
    model = copied(view)
    shown = {value.name for value in model.graph.input}
    stubs = {name: item for name, item in _stubs(skeleton.graph) if name in shown}
    inputs = {value.name for value in skeleton.graph.input}
    positions = [
        i
        for i, item in enumerate(model.graph.input)
        if item.name in inputs or item.name not in stubs
    ]
    delete_others(model.graph.input, positions)
    for name, stub in stubs.items():
        model.graph.initializer.add().CopyFrom(stub)
        model.graph.initializer[-1].name = name
    return model


def _stubs(graph: GraphProto) -> Iterator[tuple[str, TensorProto]]:
    """Yields the tensors without payload of a graph and its subgraphs, with their value names."""
    for inner in walk.graphs_in(graph):
        yield from (
            (tensor.name, tensor) for tensor in inner.initializer if Weights.is_stub(tensor)
        )
        yield from ((node.output[0], value) for node, value in _large_constants(inner))


_GRAPH_TAG = 7 << 3 | 2


def _cut(data: bytes, fields: Iterable[bytes], extra: bytes) -> bytes | None:
    """Removes fields from the graph of a serialized model, and adds others."""
    graph = (field for field in wire.fields(data, 0, len(data)) if field[1] == _GRAPH_TAG)
    start, _, pos, end, _ = next(graph)
    pieces = []
    for field in fields:
        if (at := data.find(field, pos, end)) < 0:
            return None
        pieces.append(memoryview(data)[pos:at])
        pos = at + len(field)
    pieces += [memoryview(data)[pos:end], memoryview(extra)]
    head = data[:start] + wire.header(_GRAPH_TAG >> 3, wire.total(pieces))
    return b"".join([head, *pieces, memoryview(data)[end:]])


def _hoist_all(view: ModelProto) -> None:
    """Turns tensors without payload into inputs of the main graph, if their names are unique."""
    names = Counter(walk.defined_names(view.graph))
    inputs: list[ValueInfoProto] = []
    _hoist(view.graph, names, inputs, main=True)
    view.graph.input.extend(inputs)


def _fill(view: ModelProto, weights: Weights | None) -> None:
    """Fills the remaining tensors without payload with zeros."""
    for item in walk.items(view):
        if isinstance(item, TensorProto):
            _zero(item)
        else:
            _zero_sparse(item, weights)


def _hoist(
    graph: GraphProto, names: Counter[str], inputs: list[ValueInfoProto], main: bool
) -> None:
    """Turns initializers and Constants without payload into inputs of the main graph."""
    declared = {value.name for value in graph.input} if main else set()
    # A subgraph must define its own outputs.
    outputs = set() if main else {value.name for value in graph.output}

    def moves(tensor: TensorProto, name: str) -> bool:
        if not Weights.is_stub(tensor) or names[name] > 1 or name in outputs:
            return False
        inputs.append(ValueInfoProto(name=name, type=tensor_type(tensor)))
        return True

    counts = Counter(tensor.name for tensor in graph.initializer)
    # The checker rejects names that occur twice.
    declared = {name for name in declared if counts[name] == 1}
    stay = [
        i
        for i, tensor in enumerate(graph.initializer)
        if not (moves(tensor, tensor.name) or (tensor.name in declared and Weights.is_stub(tensor)))
    ]
    delete_others(graph.initializer, stay)
    stay = [
        i
        for i, node in enumerate(graph.node)
        if not (node.output and (value := _constant(node)) and moves(value, node.output[0]))
    ]
    delete_others(graph.node, stay)
    for subgraph in walk.graphs_directly_in(graph):
        _hoist(subgraph, names, inputs, main=False)


def _constant(node: NodeProto) -> TensorProto | None:
    """Returns the tensor of a plain Constant if its payload was removed; else None."""
    if node.op_type != "Constant" or node.domain not in ("", "ai.onnx"):
        return None
    if not any(Weights.is_stub(attribute.t) for attribute in node.attribute):
        return None
    if node.input or len(node.output) != 1 or len(node.attribute) != 1:
        return None
    (value,) = node.attribute
    fields = {field.name for field, _ in value.ListFields()} - {"doc_string"}
    plain = fields == {"name", "type", "t"} and value.name == "value"
    return value.t if plain and value.type == AttributeProto.TENSOR else None


def _zero(tensor: TensorProto, value: bytes | None = None) -> None:
    """Fills a tensor without payload with zeros, or with these bytes, for the checker."""
    if not Weights.is_stub(tensor):
        return
    row = ELEMENTS.get(tensor.data_type)
    bits = row.bits if row is not None else 8
    if value is None and prod(tensor.dims) * bits > 8 * wire.LIMIT:
        raise InvalidModel(
            f"tensor {tensor.name!r} of shape {list(tensor.dims)} is too large for this place"
            " in a model; make it an initializer of the main graph"
        )
    tensor.ClearField("external_data")
    tensor.ClearField("data_location")
    size = max(0, -(-prod(tensor.dims) * bits // 8))  # the checker rejects a negative length
    tensor.raw_data = bytes(size) if value is None else value


def _zero_sparse(sparse: SparseTensorProto, weights: Weights | None) -> None:
    """Fills a sparse tensor with zeros; unreadable indices become the first positions."""
    _zero(sparse.values)
    if weights is not None and weights.has(sparse.indices):
        _zero(sparse.indices, weights.load(sparse.indices).astype("<i8").tobytes())
        return
    indices = np.arange(prod(sparse.indices.dims[:1]), dtype="<i8")
    if len(sparse.indices.dims) == 2:
        indices = np.stack(np.unravel_index(indices, tuple(sparse.dims)), axis=1)
    _zero(sparse.indices, indices.astype("<i8").tobytes())
