# SPDX-License-Identifier: Apache-2.0
"""Prevents crashes of onnx's inference, which ends the process for some unknown types.

Inference also rejects some nodes that omit an attribute with a default, and treats a sparse
initializer as a scalar.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator

from google.protobuf.message import DecodeError

from opshift.author import piecewise, shrinking
from opshift.author.attributes import make_attribute
from opshift.author.model_bytes import ModelBytes
from opshift.author.scope_types import by_graph, by_name
from opshift.author.traits import DeclaredRules, Fragile, Undefaulted
from opshift.model import imports
from opshift.model.bytes.outline import Sizes, read_as
from opshift.model.bytes.outline_pb2 import SizedTensor
from opshift.model.names import unused_prefix
from opshift.model.scope import sparse_type
from opshift.model.walk import containers, graphs_in, nodes, nodes_in
from opshift.opsets import schemas
from opshift.opsets.elements import T
from opshift.opsets.types import LARGEST_RANK, dims_of, rank_of
from opshift.protos import GraphProto, ModelProto, TypeProto, onnx_checker, shape_inference

# The exceptions of onnx's inference. onnx raises IndexError for an index beyond a vector's end,
# and DecodeError if it writes types into a model that is nested as deeply as protobuf allows.
COMPLAINTS = (
    shape_inference.InferenceError,
    onnx_checker.ValidationError,
    RuntimeError,
    ValueError,
    IndexError,
    DecodeError,
)
MOST_PROPAGATED = 2**24  # the largest dimension for which data propagation is allowed
_SIZES: dict[int, tuple[str, int]] = {
    kind: (layout, kind.element.limits[1]) for kind, layout in ((T.INT32, "<i"), (T.INT64, "<q"))
}
NOBODY = "opshift.unknown"  # a domain that inference does not know


def infer(
    model: bytes | ModelProto | ModelBytes,
    adapters: DeclaredRules,
    *,
    strict: bool = False,
    data_prop: bool = False,
) -> ModelProto:
    """Runs onnx's inference without the nodes on which inference would end the process."""
    source = ModelBytes.of(model)
    shown = _survivable(source, adapters, data_prop=data_prop)
    inferred = _inferred(shown, strict=strict, data_prop=data_prop)
    if shown is not source:
        _give_back(inferred, source.data)
    return inferred


def _inferred(shown: ModelBytes, *, strict: bool = False, data_prop: bool = False) -> ModelProto:
    data_prop = data_prop and may_propagate(shown)
    return piecewise.infer(shown, strict=strict, data_prop=data_prop)


def may_propagate(model: ModelBytes) -> bool:
    """Returns whether data propagation is safe, because no dimension is huge."""
    sizes, names_one = read_as(Sizes, model.data), False
    if sizes.largest() > MOST_PROPAGATED:
        return False
    for tensor in sizes.tensors():
        if max(tensor.dims, default=0) > MOST_PROPAGATED:
            return False
        names_one = names_one or (tensor.data_type in _SIZES and _names_a_huge_size(tensor))
    if not names_one:
        return True
    inferred = piecewise.infer(model)
    return not _is_huge(inferred) and not _computes_a_huge_size(model, inferred)


def _is_huge(model: ModelProto) -> bool:
    return read_as(Sizes, model.SerializeToString()).largest() > MOST_PROPAGATED


def _computes_a_huge_size(model: ModelBytes, inferred: ModelProto) -> bool:
    """Returns whether data propagation finds a huge size or may find one in a function.

    A node that reads a vector gets a message for each element, so here no node reads a vector whose
    length only data propagation may find.
    """
    if inferred.functions:
        return True
    copy, prefix = ModelProto.FromString(model.data), unused_prefix(model.data)
    owned = (kinds for scope in by_graph(inferred) for kinds in scope.own.items())
    computed = {name: kind for name, kind in owned if kind is not None and _may_grow(kind)}
    for node in nodes_in(copy.graph):
        for i, name in enumerate(node.input):
            if name in computed:
                node.input[i] = prefix + name
    for name, kind in computed.items():
        copy.graph.input.add(name=prefix + name, type=kind)
    return _is_huge(piecewise.infer(ModelBytes.of(copy, risky=model.risky), data_prop=True))


def _may_grow(kind: TypeProto) -> bool:
    """Returns whether a type may be the one of a vector of unknown length."""
    is_vector = kind.HasField("tensor_type") and rank_of(kind) in (None, 1)
    return is_vector and not any(isinstance(dim, int) for dim in dims_of(kind))


def _names_a_huge_size(tensor: SizedTensor) -> bool:
    """Returns whether a constant may be a huge size, or become one if a node subtracts it.

    The smallest and the largest integer are ends in Slice.
    """
    if raw := tensor.raw_data:
        return len(raw) <= 8 * LARGEST_RANK and _is_huge_in(raw, tensor.data_type)
    numbers = (*tensor.int64_data[:LARGEST_RANK], *tensor.int32_data[:LARGEST_RANK])
    return any(MOST_PROPAGATED < abs(number) < _SIZES[tensor.data_type][1] for number in numbers)


@functools.lru_cache(4096)
def _is_huge_in(raw: bytes, kind: int) -> bool:
    layout, last = _SIZES[kind]
    whole = len(raw) - len(raw) % struct.calcsize(layout)
    return any(
        MOST_PROPAGATED < abs(number) < last
        for (number,) in struct.iter_unpack(layout, raw[:whole])
    )


def _give_back(inferred: ModelProto, data: bytes) -> None:
    """Restores the domains of hidden nodes, and the sparse initializers."""
    source = ModelProto.FromString(data)
    for graph, first in zip(_graphs(inferred), _graphs(source), strict=True):
        graph.sparse_initializer.extend(first.sparse_initializer)
    for node, original in zip(nodes(inferred), nodes(source), strict=True):
        if node.domain == NOBODY:
            node.domain = original.domain
        if len(node.attribute) > len(original.attribute):
            del node.attribute[len(original.attribute) :]
    for opsets in (
        inferred.opset_import,
        *(function.opset_import for function in inferred.functions),
    ):
        opsets.remove(next(one for one in opsets if one.domain == NOBODY))


def is_at_risk(model: bytes | ModelProto | ModelBytes, adapters: DeclaredRules) -> bool:
    """Returns whether onnx must not infer the model as it is (see `infer`)."""
    source = ModelBytes.of(model)
    return _may_be_hidden(source, adapters) or piecewise.is_slow(source)


def _may_be_hidden(model: ModelBytes, adapters: DeclaredRules) -> bool:
    """Returns whether inference may crash on the model, reject it, or find wrong types."""
    if model.may_be_hidden is None:
        at_fault = {op for kind in (Fragile, Undefaulted) for _, op in adapters.traits(kind)}
        model.may_be_hidden = (
            model.content.sparse_initializers
            or not model.operators.isdisjoint(at_fault)
            or shrinking.may_hold(model, adapters)
        )
    return model.may_be_hidden


def _survivable(source: ModelBytes, adapters: DeclaredRules, *, data_prop: bool) -> ModelBytes:
    """Copies a model, hides nodes that inference misjudges, and adds attributes that it needs.

    To hide a node, the copy gives the node a domain that inference does not know.
    """
    if not _may_be_hidden(source, adapters):
        return source
    copy = ModelProto.FromString(source.data)
    _declare_sparse(copy)
    _write_defaults(copy, adapters)
    copy.opset_import.add(domain=NOBODY, version=1)
    for function in copy.functions:
        function.opset_import.add(domain=NOBODY, version=1)
    risky = _hide_fragile(copy, adapters)

    def infer_sizes(model: ModelProto) -> ModelProto:
        return _inferred(ModelBytes.of(model, risky=risky), data_prop=data_prop)

    try:
        risky |= shrinking.hide(copy, NOBODY, adapters, infer_sizes)
    except COMPLAINTS:
        risky = True  # inference rejects the model, perhaps because of a negative size
    return ModelBytes.of(copy, risky=risky)


def _hide_fragile(copy: ModelProto, adapters: DeclaredRules) -> bool:
    """Hides nodes that crash inference if an input has no type; returns whether any may exist."""
    fragile = adapters.traits(Fragile)
    writers: dict[str, int] = {}  # the position of the node that computes a value
    waiting = []
    for position, node in enumerate(nodes_in(copy.graph)):
        writers |= dict.fromkeys(node.output, position)
        if (schemas.normal(node.domain), node.op_type) in fragile:
            waiting.append((position, node, node.domain))
    hidden = [n for n in nodes(copy) if (schemas.normal(n.domain), n.op_type) in fragile]
    for node in hidden:  # in functions too, where a call may omit any input
        node.domain = NOBODY
    typed = _typed(copy) if waiting else set()
    for position, node, domain in waiting:
        # Between two steps, the new nodes of a graph are at the end of the graph.
        if node.input and all(
            name in typed and writers.get(name, -1) < position for name in node.input
        ):
            node.domain = domain
    return bool(hidden)


def _declare_sparse(model: ModelProto) -> None:
    """Replaces sparse initializers by declared values, because operators read dense tensors."""
    for graph in _graphs(model):
        declared = {info.name for info in (*graph.input, *graph.value_info)}
        for sparse in graph.sparse_initializer:
            if sparse.values.name not in declared:
                graph.value_info.add(name=sparse.values.name, type=sparse_type(sparse))
        del graph.sparse_initializer[:]


def _graphs(model: ModelProto) -> Iterator[GraphProto]:
    return (item for item in containers(model) if isinstance(item, GraphProto))


def _write_defaults(model: ModelProto, adapters: DeclaredRules) -> None:
    """Writes the attributes that onnx's inference requires although they have defaults."""
    undefaulted = adapters.traits(Undefaulted)
    for node, versions in imports.operators(model):
        key = schemas.normal(node.domain), node.op_type
        described = schemas.schema(*key, versions.get(key[0], 0)) if key in undefaulted else None
        if described is None:
            continue
        stated = {attribute.name for attribute in node.attribute}
        for name, described_attribute in described.attributes.items():
            if name not in stated and described_attribute.default is not None:
                node.attribute.append(make_attribute(described, name, described_attribute.default))


def _typed(model: ModelProto) -> set[str]:
    """Returns the names of graph values, not of function values, whose type inference finds."""
    try:
        model = piecewise.infer(ModelBytes.of(model))
    except COMPLAINTS:
        return set()
    types = by_name(by_graph(model))
    tensors = (tensor for graph in graphs_in(model.graph) for tensor in graph.initializer)
    typed = {name for name, kind in types.items() if kind is not None and kind.WhichOneof("value")}
    return typed.union(tensor.name for tensor in tensors if tensor.name not in types)
