"""Carve large payloads out of a model before it is converted and put them back afterwards.

A *skeleton* is a model in which every large tensor is a *stub*: the same TensorProto with one
`external_data` entry, `opshift.carved`, in place of its payload. Tensors that are external
already carry no payload and are left as they are.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from math import prod
from typing import Any, TypeAlias

import numpy as np
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    ValueInfoProto,
)

from opshift import wire
from opshift.arrays import from_array, to_array
from opshift.declare import Array
from opshift.errors import InvalidModel
from opshift.external import Late, Moved, Opened, Region, Staging, inside, locate, location_of

THRESHOLD = 4096
"""Payloads of more bytes than this are carved."""

_PAYLOAD = tuple(wire.PAYLOAD.values())
_HEADER = tuple(f.name for f in TensorProto.DESCRIPTOR.fields if f.name not in _PAYLOAD)
_HOLDERS = frozenset(
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


@dataclass(frozen=True, slots=True)
class Weights:
    """Knows where every carved payload is: in a model object or in a file."""

    sources: tuple[Source, ...] = ()
    base_dir: str = ""

    @staticmethod
    def is_stub(tensor: TensorProto) -> bool:
        """Whether the payload is elsewhere: carved, or external data."""
        return tensor.data_location == TensorProto.EXTERNAL or _marker(tensor) is not None

    def load(self, tensor: TensorProto) -> Array:
        """Value of a stub, of an external tensor, or of an ordinary tensor."""
        if not self.is_stub(tensor):
            return to_array(tensor)
        whole = TensorProto()
        whole.CopyFrom(tensor)
        if not self.fill(whole):
            whole.raw_data = locate(tensor, self.base_dir).read()
            whole.ClearField("external_data")
            whole.ClearField("data_location")
        return to_array(whole)

    def source(self, tensor: TensorProto) -> Source | None:
        """Where the payload of a carved stub is; None for every other tensor."""
        return None if (mark := _marker(tensor)) is None else self.marked(mark)

    def marked(self, mark: str) -> Source:
        """Where the payload is that a marker's value names."""
        if mark.isascii() and mark.isdigit() and int(mark) < len(self.sources):
            return self.sources[int(mark)]
        raise InvalidModel(f"a tensor refers to the payload {mark!r}, which was never carved")

    def fill(self, stub: TensorProto) -> bool:
        """Put the payload back into a carved stub; False where nothing was carved."""
        if (source := self.source(stub)) is None:
            return False
        header = _header_of(stub)
        source.copy_to(stub)
        _replace_header(stub, header)
        return True


@dataclass(frozen=True, slots=True)
class InModel:
    """A payload that is in a tensor of the model which was carved."""

    tensor: TensorProto

    def copy_to(self, stub: TensorProto) -> None:
        """Give a stub the payload."""
        stub.CopyFrom(self.tensor)

    def encoded(self) -> wire.Payload[Moved]:
        """The payload as it is written to a file."""
        if (raw := self.raw()) is not None:
            return wire.RAW, [wire.header(wire.RAW, len(raw)), raw]
        number = next(n for n, name in wire.PAYLOAD.items() if _has(self.tensor, name))
        return number, [Late(len(self._typed()), self._typed)]

    def raw(self) -> Late | None:
        """What raw_data holds, if that is where the payload is."""
        tensor = self.tensor
        if not tensor.HasField("raw_data"):
            return None
        # Asking for its length would copy it.
        return Late(wire.raw_size(tensor.data_type, prod(tensor.dims)), lambda: tensor.raw_data)

    def _typed(self) -> bytes:
        only = TensorProto()
        only.CopyFrom(self.tensor)
        _replace_header(only, TensorProto())
        return only.SerializeToString(deterministic=True)


@dataclass(frozen=True, slots=True)
class InFile:
    """A payload that is in a file, tags included, in one piece or in several."""

    field: int
    pieces: tuple[bytes | Region, ...]

    def copy_to(self, stub: TensorProto) -> None:
        """Give a stub the payload."""
        for piece in self.pieces:
            stub.MergeFromString(piece if isinstance(piece, bytes) else piece.read())

    def encoded(self) -> wire.Payload[Moved]:
        """The payload as it is written to a file."""
        return self.field, self.pieces

    def raw(self) -> Region | None:
        """What raw_data would hold, if these bytes are in the file as they are."""
        run = self.pieces[0]
        if self.field not in wire.AS_RAW or len(self.pieces) > 1 or isinstance(run, bytes):
            return None
        head = run.part(0, 11).read()
        size, start = wire.read_varint(head, 1)
        whole = head[0] == self.field << 3 | 2 and start + size == run.length
        return run.part(start, size) if whole else None


Source: TypeAlias = InModel | InFile


def carve_file(path: str | os.PathLike[str]) -> tuple[ModelProto, Weights]:
    """Read a model file without its large payloads."""
    name = os.fspath(path)
    try:
        file = Opened(name)
        data, payloads = wire.carve(file.view, THRESHOLD, file.release)
        skeleton = ModelProto.FromString(data)
        _refuse_foreign(skeleton)
    except (wire.Malformed, DecodeError) as error:
        raise InvalidModel(
            f"{name}: not a readable ONNX model: {error}; is the file complete, and binary ONNX?"
        ) from None
    sources = tuple(
        InFile(field, tuple(Region(file, start, stop - start) for start, stop in runs))
        for field, runs in payloads
    )
    return skeleton, Weights(sources, os.path.dirname(name))


def _refuse_foreign(model: ModelProto) -> None:
    """Protobuf reads almost anything, and takes what it does not understand for unknown fields."""
    for message in (model, model.graph):
        for field in UnknownFieldSet(message):  # type: ignore[attr-defined]  # by __getitem__
            if known := message.DESCRIPTOR.fields_by_number.get(field.field_number):
                raise wire.Malformed(f"its field {known.name!r} is of another kind")
    if not model.HasField("graph") and not model.HasField("ir_version"):
        raise wire.Malformed("it has neither a graph nor an ir_version")


def data_files(skeleton: ModelProto, weights: Weights) -> list[str]:
    """The files that hold a model's external data, each once."""
    return sorted({str(region.file) for _, region in _located(skeleton, weights)})


def carve_model(model: ModelProto, base_dir: str = "") -> tuple[ModelProto, Weights]:
    """Copy a model without its large payloads, which stay in the model."""
    skeleton, sources = ModelProto(), list[Source]()
    _copy_lean(model, skeleton, sources)
    return skeleton, Weights(tuple(sources), base_dir)


def fill(skeleton: ModelProto, weights: Weights) -> None:
    """Put the payloads back into the skeleton."""
    found = sum(map(weights.fill, skeleton.graph.initializer))
    if found != len(weights.sources):  # else nothing was carved anywhere but from initializers
        for tensor in _nested_tensors(skeleton):
            weights.fill(tensor)


def transplant(skeleton: ModelProto, weights: Weights, target: ModelProto) -> None:
    """Make the model that the weights were carved from equal the skeleton, payloads unmoved."""
    _replace_fields(skeleton, target, keep="graph")
    target.graph.SetInParent()
    _replace_fields(skeleton.graph, target.graph, keep="initializer")
    found = _reconcile(skeleton.graph.initializer, weights, target.graph.initializer)
    if found != len(weights.sources):
        for tensor in _nested_tensors(target):
            weights.fill(tensor)


# --- copying without payloads ---------------------------------------------------------------------


def _copy_lean(source: Message, copy: Message, sources: list[Source]) -> None:
    """Copy field by field, descending where a tensor can be."""
    for field, value in source.ListFields():
        kind = field.message_type.name if field.message_type else ""
        if kind not in _LEAN:
            _merge(copy, field.name, value)
        elif isinstance(value, Message):
            child = getattr(copy, field.name)
            child.SetInParent()
            _LEAN[kind](value, child, sources)
        elif kind == "NodeProto":
            _copy_nodes(value, getattr(copy, field.name), sources)
        else:
            lean, add = _LEAN[kind], getattr(copy, field.name).add
            for child in value:
                lean(child, add(), sources)
    _copy_unknown(source, copy)


def _merge(message: Message, name: str, value: Any) -> None:
    if hasattr(value, "MergeFrom"):
        getattr(message, name).MergeFrom(value)
    else:
        setattr(message, name, value)


def _copy_nodes(nodes: Iterable[NodeProto], copies: Any, sources: list[Source]) -> None:
    """Copy nodes whole, all at once, or around those that hold a large tensor or a graph."""
    holds: dict[str, bool] = {"Constant": True}  # it need not hold a tensor the first time
    heavy: set[int] = set()
    for i, node in enumerate(nodes):
        op = node.op_type
        if op not in holds:
            # A miss costs a copy of a payload, nothing else: one look per operator is enough.
            holds[op] = any(attribute.type in _HOLDERS for attribute in node.attribute)
        if holds[op] and not _is_light(node):
            heavy.add(i)
    if not heavy:
        copies.extend(nodes)
        return
    for i, node in enumerate(nodes):
        if i in heavy:
            _copy_lean(node, copies.add(), sources)
        else:
            copies.add().CopyFrom(node)


def _is_light(node: NodeProto) -> bool:
    for attribute in node.attribute:
        kind = attribute.type
        if kind == AttributeProto.TENSOR:
            if _is_large(attribute.t):
                return False
        elif kind in _HOLDERS:
            return False
    return True


def _copy_tensor(tensor: TensorProto, copy: TensorProto, sources: list[Source]) -> None:
    """Copy a tensor, or make a stub of it when it is large."""
    if not _is_large(tensor):
        copy.CopyFrom(tensor)
        return
    _copy_header(tensor, copy)
    copy.external_data.add(key=wire.MARK, value=str(len(sources)))
    sources.append(InModel(tensor))


_LEAN: dict[str, Any] = {
    "GraphProto": _copy_lean,
    "NodeProto": _copy_lean,
    "AttributeProto": _copy_lean,
    "FunctionProto": _copy_lean,
    "TrainingInfoProto": _copy_lean,
    "SparseTensorProto": _copy_lean,
    "TensorProto": _copy_tensor,
}


def _is_large(tensor: TensorProto) -> bool:
    """Whether the tensor is well formed and its payload is worth carving, without touching it."""
    elements = prod(tensor.dims)
    if elements <= THRESHOLD // 16:  # no element is wider than 16 bytes
        return False
    bits, _ = wire.STORAGE.get(tensor.data_type, (0, 0))
    if elements * bits <= 8 * THRESHOLD or Weights.is_stub(tensor):
        return False
    return (
        wire.fits(tensor.data_type, {n for n, name in wire.PAYLOAD.items() if _has(tensor, name)})
        and not tensor.string_data
        and not tensor.HasField("segment")
    )


def _has(tensor: TensorProto, payload: str) -> bool:
    return tensor.HasField(payload) if payload == "raw_data" else bool(getattr(tensor, payload))


def _copy_header(tensor: TensorProto, copy: TensorProto) -> None:
    for name in _HEADER:
        value = getattr(tensor, name)
        if hasattr(value, "extend"):
            getattr(copy, name).MergeFrom(value)
        elif tensor.HasField(name):
            _merge(copy, name, value)
    _copy_unknown(tensor, copy)


def _copy_unknown(source: Message, copy: Message) -> None:
    if unknown := UnknownFieldSet(source):
        copy.MergeFromString(_encode_unknown(unknown))


def _encode_unknown(fields: UnknownFieldSet) -> bytes:
    out = []
    for field in fields:  # type: ignore[attr-defined]  # it has __getitem__ only
        tag = wire.varint(field.field_number << 3 | field.wire_type)
        match field.wire_type:
            case 0:
                body = wire.varint(field.data)
            case 1 | 5:
                body = field.data.to_bytes(8 if field.wire_type == 1 else 4, "little")
            case 2:
                body = wire.varint(len(field.data)) + field.data
            case _:
                body = _encode_unknown(field.data) + wire.varint(field.field_number << 3 | 4)
        out.append(tag + body)
    return b"".join(out)


# --- stubs ----------------------------------------------------------------------------------------


def _marker(tensor: TensorProto) -> str | None:
    for entry in tensor.external_data:
        if entry.key == wire.MARK:
            return entry.value
    return None


def _header_of(stub: TensorProto) -> TensorProto:
    """Everything that a stub says about its tensor: all of it but the marker."""
    header = TensorProto()
    header.CopyFrom(stub)
    kept = [entry for entry in stub.external_data if entry.key != wire.MARK]
    header.ClearField("external_data")
    header.external_data.extend(kept)
    return header


def _replace_header(tensor: TensorProto, header: TensorProto) -> None:
    for name in _HEADER:
        tensor.ClearField(name)
    tensor.DiscardUnknownFields()
    tensor.MergeFrom(header)


def _nested_tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Every tensor of the model but the main graph's initializers."""
    for item in _nested_items(model):
        if isinstance(item, TensorProto):
            yield item
        else:
            yield from (item.values, item.indices)


def _nested_items(model: ModelProto) -> Iterator[TensorProto | SparseTensorProto]:
    yield from _items_of_nodes(model.graph.node)
    yield from model.graph.sparse_initializer
    for training in model.training_info:
        yield from _items_of_graph(training.initialization)
        yield from _items_of_graph(training.algorithm)
    for function in model.functions:
        yield from _items_of_attributes(function.attribute_proto)
        yield from _items_of_nodes(function.node)


def _items_of_graph(graph: GraphProto) -> Iterator[TensorProto | SparseTensorProto]:
    yield from _items_of_nodes(graph.node)
    yield from graph.initializer
    yield from graph.sparse_initializer


def _items_of_nodes(nodes: Iterable[NodeProto]) -> Iterator[TensorProto | SparseTensorProto]:
    for node in nodes:
        if attributes := node.attribute:
            yield from _items_of_attributes(attributes)


def _items_of_attributes(
    attributes: Iterable[AttributeProto],
) -> Iterator[TensorProto | SparseTensorProto]:
    for attribute in attributes:
        if attribute.type not in _HOLDERS:
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


# --- from object to the same object ---------------------------------------------------------------


def _replace_fields(source: Message, target: Message, keep: str) -> None:
    for field in target.DESCRIPTOR.fields:
        if field.name != keep:
            target.ClearField(field.name)
    for field, value in source.ListFields():
        if field.name != keep:
            _merge(target, field.name, value)


def _reconcile(wanted: Any, weights: Weights, present: Any) -> int:
    """Give `present` the content and order of `wanted`, touching no payload that both have."""
    old = list(present)
    place = {id(tensor): i for i, tensor in enumerate(old)}
    by_name = {tensor.name: i for i, tensor in enumerate(old) if not _is_large(tensor)}
    taken: dict[int, int] = {}
    fresh: list[int] = []
    carved = 0
    for position, tensor in enumerate(wanted):
        source = weights.source(tensor)
        carved += source is not None
        index = place.get(id(source.tensor)) if isinstance(source, InModel) else None
        if source is None:
            index = by_name.get(tensor.name)
        if index is None or index in taken:
            fresh.append(position)
            continue
        taken[index] = position
        _update(old[index], tensor, carved=source is not None)
    _delete_others(present, taken)
    for position in fresh:
        weights.fill(_added(present, wanted[position]))
    order = [taken[i] for i in sorted(taken)] + fresh
    if order != sorted(order):
        positions = iter(order)
        present.sort(key=lambda _: next(positions))
    return carved


def _update(tensor: TensorProto, wanted: TensorProto, carved: bool) -> None:
    if carved:
        header, current = _header_of(wanted), TensorProto()
        _copy_header(tensor, current)
        if header != current:
            _replace_header(tensor, header)
    elif tensor != wanted:
        tensor.CopyFrom(wanted)


def _added(container: Any, tensor: TensorProto) -> TensorProto:
    added: TensorProto = container.add()
    added.CopyFrom(tensor)
    return added


def _delete_others(container: Any, kept: Iterable[int]) -> None:
    """Delete all elements but those at the given indices, one slice per gap."""
    end = len(container)
    for index in sorted(kept, reverse=True):
        if index + 1 < end:
            del container[index + 1 : end]
        end = index
    del container[:end]


# --- what the checker may see ---------------------------------------------------------------------


def checkable(skeleton: ModelProto) -> bytes | ModelProto:
    """The skeleton with its stubs shown as graph inputs, for checks that read no weights."""
    stubs = [t for t in skeleton.graph.initializer if Weights.is_stub(t)]
    data = skeleton.SerializeToString(deterministic=True)
    found = data.count(wire.MARK_KEY) + data.count(_EXTERNAL_KEY)
    if not found and not stubs:
        return data
    carved = sum(_marker(stub) is not None for stub in stubs)
    if data.count(wire.MARK_KEY) == carved and found == len(stubs):  # then none is nested
        known = {value.name for value in skeleton.graph.input}
        shown = GraphProto(input=[_as_input(t, t.name) for t in stubs if t.name not in known])
        cut = _cut(data, stubs, shown.SerializeToString(deterministic=True))
        if cut is not None:
            return cut
    view = _copy(skeleton)
    _show_nested(view)
    return view


_EXTERNAL_KEY = wire.framed(1, b"location")


_GRAPH_TAG = 7 << 3 | 2


def _cut(data: bytes, stubs: Iterable[TensorProto], extra: bytes) -> bytes | None:
    """The serialized model without these initializers of its graph, but with extra graph fields."""
    graph = (field for field in wire.fields(data, 0, len(data)) if field[1] == _GRAPH_TAG)
    start, _, pos, end, _ = next(graph)
    pieces = []
    for stub in stubs:
        field = wire.framed(5, stub.SerializeToString(deterministic=True))
        if (at := data.find(field, pos, end)) < 0:
            return None
        pieces.append(memoryview(data)[pos:at])
        pos = at + len(field)
    pieces += [memoryview(data)[pos:end], memoryview(extra)]
    head = data[:start] + wire.header(_GRAPH_TAG >> 3, wire.total(pieces))
    return b"".join([head, *pieces, memoryview(data)[end:]])


def _as_input(tensor: TensorProto, name: str) -> ValueInfoProto:
    value = ValueInfoProto(name=name)
    value.type.tensor_type.elem_type = tensor.data_type
    shape = value.type.tensor_type.shape
    shape.SetInParent()
    for size in tensor.dims:
        shape.dim.add(dim_value=size)
    return value


def _show_nested(view: ModelProto) -> None:
    """Turn all stubs of a private copy into main-graph inputs, or zeros where that cannot be."""
    names = Counter(_defined_names(view.graph))
    inputs: list[ValueInfoProto] = []
    _hoist(view.graph, names, inputs, main=True)
    view.graph.input.extend(inputs)
    for item in chain(view.graph.initializer, _nested_items(view)):
        if isinstance(item, TensorProto):
            _zero(item)
        else:
            _zero_sparse(item)


def _defined_names(graph: GraphProto) -> Iterator[str]:
    yield from (value.name for value in graph.input)
    yield from (tensor.name for tensor in graph.initializer)
    yield from (sparse.values.name for sparse in graph.sparse_initializer)
    for node in graph.node:
        yield from node.output
        for subgraph in _subgraphs(node):
            yield from _defined_names(subgraph)


def _subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _hoist(
    graph: GraphProto, names: Counter[str], inputs: list[ValueInfoProto], main: bool
) -> None:
    """Move the stubs that initializers and Constant nodes define to the main graph's inputs."""
    declared = {value.name for value in graph.input} if main else set()
    # A body's outputs must be made in that body.
    outputs = set() if main else {value.name for value in graph.output}

    def moves(tensor: TensorProto, name: str) -> bool:
        if not Weights.is_stub(tensor):
            return False
        if name in declared:
            return True
        if names[name] > 1 or name in outputs:
            return False
        inputs.append(_as_input(tensor, name))
        return True

    stay = [i for i, tensor in enumerate(graph.initializer) if not moves(tensor, tensor.name)]
    _delete_others(graph.initializer, stay)
    stay = [
        i
        for i, node in enumerate(graph.node)
        if not ((value := _constant(node)) and moves(value, node.output[0]))
    ]
    _delete_others(graph.node, stay)
    for node in graph.node:
        for subgraph in _subgraphs(node):
            _hoist(subgraph, names, inputs, main=False)


def _constant(node: NodeProto) -> TensorProto | None:
    if node.op_type != "Constant" or node.domain not in ("", "ai.onnx"):
        return None
    return next((a.t for a in node.attribute if a.name == "value" and a.HasField("t")), None)


def _zero(tensor: TensorProto, value: bytes | None = None) -> None:
    """Give a stub a value that is legal, but means nothing."""
    if not Weights.is_stub(tensor):
        return
    bits, _ = wire.STORAGE.get(tensor.data_type, (8, 0))
    tensor.ClearField("external_data")
    tensor.ClearField("data_location")
    tensor.raw_data = bytes(-(-prod(tensor.dims) * bits // 8)) if value is None else value


def _zero_sparse(sparse: SparseTensorProto) -> None:
    """Sparse indices must ascend: the first ones do."""
    _zero(sparse.values)
    indices = np.arange(prod(sparse.indices.dims[:1]), dtype="<i8")
    if len(sparse.indices.dims) == 2:
        indices = np.stack(np.unravel_index(indices, tuple(sparse.dims)), axis=1)
    _zero(sparse.indices, indices.astype("<i8").tobytes())


# --- from skeleton to file ------------------------------------------------------------------------


def splice(
    skeleton: ModelProto,
    weights: Weights,
    dst: str | os.PathLike[str],
    *,
    external: str = "keep",
) -> None:
    """Write the skeleton and its payloads to a file, which appears whole or not at all."""
    if external not in POLICIES:
        raise ValueError(f"external must be one of {', '.join(POLICIES)}, not {external!r}")
    name = os.fspath(dst)
    data = skeleton.SerializeToString(deterministic=True)
    outside = _located(skeleton, weights) if _EXTERNAL_KEY in data else []
    if external == "inline" and outside:
        skeleton = _copy(skeleton)
        weights = _inline(_all_tensors(skeleton), weights)
        data = skeleton.SerializeToString(deterministic=True)
    pieces = _woven(data, weights)
    if wire.total(pieces) > LIMIT:
        if external == "inline":
            raise InvalidModel(f"{name}: it would exceed 2 GiB with its weights; choose one-file")
        external = "one-file"
    with Staging() as staging:
        if external == "one-file":
            pieces = _one_file(_copy(skeleton), weights, name, staging)
            if wire.total(pieces) > LIMIT:
                raise InvalidModel(f"{name}: it would exceed 2 GiB even without its weights")
        elif external != "inline":
            _bring(outside, weights, name, external, staging)
        staging.write(name, pieces)
        staging.commit()


POLICIES = ("keep", "copy", "link", "inline", "one-file")
"""What happens to external data. Readers may refuse a file of several links, as onnx 1.23 does."""

LIMIT = 2**31 - 1
"""Protobuf reads no larger message."""

_PAGE, _SMALL = 4096, 64
_PLACE = ("location", "offset", "length", wire.MARK)


def _woven(data: bytes, weights: Weights) -> list[memoryview | bytes | Moved]:
    return wire.weave(data, lambda mark: weights.marked(mark).encoded())


def _copy(model: ModelProto) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(model)
    return copy


def _all_tensors(model: ModelProto) -> Iterator[TensorProto]:
    yield from model.graph.initializer
    yield from _nested_tensors(model)


def _located(model: ModelProto, weights: Weights) -> list[tuple[TensorProto, Region]]:
    """All external tensors and where their bytes are."""
    return [
        (tensor, locate(tensor, weights.base_dir))
        for tensor in _all_tensors(model)
        if tensor.data_location == TensorProto.EXTERNAL
    ]


def _bring(
    outside: list[tuple[TensorProto, Region]],
    weights: Weights,
    dst: str,
    policy: str,
    staging: Staging,
) -> None:
    """Make the data files reachable from the folder of the new file."""
    folder = os.path.dirname(dst) or os.curdir
    if not outside or os.path.samefile(folder, weights.base_dir or os.curdir):
        return
    for location, (tensor, region) in {location_of(t): (t, r) for t, r in outside}.items():
        if policy == "keep":
            raise InvalidModel(
                f"tensor {tensor.name!r}: its data file {location!r} would not be found from "
                f"{dst!r}; choose copy, link, inline or one-file"
            )
        path = inside(folder, location, tensor.name)
        if path == os.path.realpath(dst):
            raise InvalidModel(f"tensor {tensor.name!r}: its data file would overwrite {dst!r}")
        staging.place(str(region.file), path, link=policy == "link")


def _inline(tensors: Iterable[TensorProto], weights: Weights) -> Weights:
    """Turn external tensors into carved ones, whose payload is in their data file."""
    sources = list(weights.sources)
    for tensor in tensors:
        if tensor.data_location == TensorProto.EXTERNAL:
            region = locate(tensor, weights.base_dir)
            _forget_place(tensor)
            tensor.ClearField("data_location")
            tensor.external_data.add(key=wire.MARK, value=str(len(sources)))
            sources.append(InFile(wire.RAW, (wire.header(wire.RAW, len(region)), region)))
    return Weights(tuple(sources), weights.base_dir)


def _one_file(
    model: ModelProto, weights: Weights, dst: str, staging: Staging
) -> list[memoryview | bytes | Moved]:
    """Stage a file of all large payloads, and answer the bytes of the model that refers to it."""
    end, places, pieces = 0, dict[object, int](), list[bytes | Moved]()
    reached = list(_reached(model))
    for tensor in filter(Weights.is_stub, reached):
        raw = _raw(tensor, weights)
        key = raw if isinstance(raw, Region) else _marker(tensor)
        if key not in places:
            gap = -end % (_PAGE if len(raw) >= _PAGE else _SMALL)
            pieces += [bytes(gap), raw]
            places[key] = end + gap
            end += gap + len(raw)
        _refer(tensor, os.path.basename(dst) + ".data", places[key], len(raw))
    known = set(map(id, reached))
    weights = _inline((t for t in _all_tensors(model) if id(t) not in known), weights)
    if pieces:
        staging.write(dst + ".data", pieces)
    return _woven(model.SerializeToString(deterministic=True), weights)


def _reached(model: ModelProto) -> Iterator[TensorProto]:
    """The tensors that readers look at when they load external data."""
    nodes = chain(model.graph.node, *(function.node for function in model.functions))
    for item in chain(model.graph.initializer, _items_of_nodes(nodes)):
        if isinstance(item, TensorProto):
            yield item


def _raw(tensor: TensorProto, weights: Weights) -> Region | Late:
    """What the tensor's raw_data would be."""
    if (source := weights.source(tensor)) is None:
        return locate(tensor, weights.base_dir)
    if (raw := source.raw()) is not None:
        return raw
    stub = TensorProto()
    stub.CopyFrom(tensor)  # the tensor itself will soon say something else
    size = wire.raw_size(stub.data_type, prod(stub.dims))
    return Late(size, lambda: from_array(weights.load(stub)).raw_data)


def _refer(tensor: TensorProto, location: str, offset: int, length: int) -> None:
    _forget_place(tensor)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in zip(_PLACE, (location, offset, length), strict=False):
        tensor.external_data.add(key=key, value=str(value))


def _forget_place(tensor: TensorProto) -> None:
    kept = [entry for entry in tensor.external_data if entry.key not in _PLACE]
    tensor.ClearField("external_data")
    tensor.external_data.extend(kept)
