# SPDX-License-Identifier: Apache-2.0
"""Takes large payloads out of a model, and puts them back."""

from __future__ import annotations

import os
from math import prod

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from opshift.model.arrays import require_fit
from opshift.model.bytes import foreign, wire
from opshift.model.bytes.external import location_of
from opshift.model.bytes.ranges import Region
from opshift.model.bytes.source import Opened, opened
from opshift.model.walk import nested_tensors, tensors
from opshift.model.weights import copy, forms
from opshift.model.weights.payloads import EXTERNAL_KEY, InFile, Source, Weights, external_tensors
from opshift.protos import ModelProto, TensorProto


def carve_file(path: str | os.PathLike[str] | Opened) -> tuple[ModelProto, Weights]:
    """Reads a model file without its large payloads."""
    named = opened(path)
    name, file = named.path, forms.binary(named)
    head = bytes(file.view[: foreign.HEAD])
    foreign.refuse_other(name, head)
    try:
        whole = file.view.whole
        data, payloads = wire.carve(file.view if whole is None else whole, copy.THRESHOLD)
        skeleton = ModelProto.FromString(data)
        _refuse_foreign(skeleton)
    except (wire.Malformed, DecodeError) as error:
        raise foreign.unreadable(name, head, error) from None
    sources = tuple(
        InFile(field, tuple(Region(file, start, stop - start) for start, stop in runs))
        for field, runs in payloads
    )
    outside = external_tensors(skeleton) if EXTERNAL_KEY in data else ()
    locations = tuple(sorted(set(map(location_of, outside))))
    large_tensors = Weights(sources, os.path.dirname(name), file, locations)
    _refuse_torn(skeleton, large_tensors)
    return skeleton, large_tensors


def _refuse_torn(skeleton: ModelProto, large_tensors: Weights) -> None:
    """Raises if a removed payload does not fit its tensor, because onnx's checker cannot see it."""
    unread = len(large_tensors.sources)
    for tensor in tensors(skeleton) if unread else ():
        source = large_tensors.source(tensor)
        if source is None:
            continue
        unread -= 1
        if (raw := source.raw()) is None:
            large_tensors.load(tensor)
        else:
            needed = wire.raw_size(tensor.data_type, prod(tensor.dims))
            require_fit(tensor.dims, len(raw), needed, "bytes", f"tensor {tensor.name!r}")
        if not unread:
            return


def _refuse_foreign(model: ModelProto) -> None:
    """Raises if bytes are not a model, because protobuf reads most bytes as unknown fields."""
    for message in (model, model.graph):
        for field in UnknownFieldSet(message):  # type: ignore[attr-defined]  # by __getitem__
            if declared := message.DESCRIPTOR.fields_by_number.get(field.field_number):
                raise wire.Malformed(f"the field {declared.name!r} is encoded as another type")
    if not model.HasField("graph") and not model.HasField("ir_version"):
        raise wire.Malformed("the message has neither a graph nor an ir_version")


def carve_model(model: ModelProto) -> tuple[ModelProto, Weights]:
    """Copies a model without its large payloads, which stay in the original model."""
    data = bytes_of(model)
    if data is not None and not wire.has_payloads(data):
        return ModelProto.FromString(data), Weights()
    skeleton, sources = ModelProto(), list[Source]()
    copy.copy_lean(model, skeleton, sources)
    return skeleton, Weights(tuple(sources))


def bytes_of(model: ModelProto) -> bytes | None:
    """Serializes a model; returns None if it has large initializers or payload markers."""
    if any(map(copy.is_large, model.graph.initializer)):
        return None
    data = model.SerializeToString()
    return None if wire.MARK_KEY in data else data


def fetch(model: ModelProto, weights: Weights) -> None:
    """Loads all external data into the model."""
    for tensor in external_tensors(model):
        _take(tensor, weights)


def fill_nested(skeleton: ModelProto, weights: Weights) -> None:
    """Puts the payloads back into all tensors except the initializers of the main graph."""
    for tensor in nested_tensors(skeleton):
        if not weights.fill(tensor) and tensor.data_location == TensorProto.EXTERNAL:
            _take(tensor, weights)


def _take(tensor: TensorProto, weights: Weights) -> None:
    data = weights.locate(tensor).read()
    tensor.ClearField("external_data")
    tensor.data_location = TensorProto.DEFAULT  # written explicitly, as by onnx.load
    tensor.raw_data = data


def fill(skeleton: ModelProto, weights: Weights) -> None:
    """Puts the payloads back into the skeleton."""
    count = sum(map(weights.fill, skeleton.graph.initializer))
    if count != len(weights.sources):  # otherwise only initializers were carved
        for tensor in nested_tensors(skeleton):
            weights.fill(tensor)
