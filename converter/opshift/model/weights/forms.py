# SPDX-License-Identifier: Apache-2.0
"""Reads and writes models in onnx's text formats, by the extension of the file name."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from google.protobuf.message import Message

from opshift.errors import BadDestination, InvalidModel
from opshift.model import walk
from opshift.model.arrays import from_array, to_array
from opshift.model.bytes import wire
from opshift.model.bytes.source import Opened, is_text
from opshift.model.illegible import texts
from opshift.opsets.elements import ELEMENTS
from opshift.protos import ModelProto, TensorProto, text_form
from opshift.protos.copies import copied

if TYPE_CHECKING:
    from opshift.protos.whole import ProtoSerializer


TEXT = "onnxtxt"  # the format that the C++ code of onnx reads


def binary(file: Opened) -> Opened:
    """Returns the file itself, or the model of a text format in binary form."""
    if not is_text(file.path):
        return file
    try:
        with _silenced():
            model = _decoded(_serializer(file.path), file.view[:])
    except Exception as error:  # each format raises different errors
        said = " ".join(str(error).split())[:300]
        raise InvalidModel(
            f"{file.path}: not a readable ONNX model: {said}", "UNREADABLE_MODEL"
        ) from None
    return file.replaced(model.SerializeToString(deterministic=True))


def encoded(model: ModelProto, path: str) -> bytes:
    """Returns the model in the format of a file name; raises if the format loses content."""
    form = _serializer(path)
    with _silenced():
        try:
            data = _encoded(form, model)
            again = _decoded(form, data)
        except Exception as error:  # each format raises different errors
            lost = f"this model: {error}"
        else:
            lost = _difference(_plain(model), _plain(again))
    if lost:
        raise BadDestination(
            f"{path}: the format {form.supported_format} cannot hold {lost}; choose a name that"
            " ends in .onnx"
        )
    return data


def _decoded(form: ProtoSerializer, data: bytes) -> ModelProto:
    if form.supported_format == TEXT:
        return ModelProto.FromString(text_form.parse(data.decode()))
    return form.deserialize_proto(data, ModelProto())


def _encoded(form: ProtoSerializer, model: ModelProto) -> bytes:
    if form.supported_format == TEXT:
        return text_form.written(model.SerializeToString()).encode()
    data: bytes = form.serialize_proto(model)
    return data


def _difference(expected: Message, read: Message) -> str:
    """Returns the first field that differs between two messages of a type; '' if all are equal."""
    fields = dict(expected.ListFields()) | dict(read.ListFields())
    for field in sorted(fields, key=lambda field: field.number):
        first, second = getattr(expected, field.name), getattr(read, field.name)
        if first == second:
            continue
        pairs = (
            [(first, second)] if isinstance(first, Message) else zip(first, second, strict=False)
        )
        deeper = (_difference(*pair) for pair in pairs) if field.message_type else iter(())
        return next(filter(None, deeper), f"the {field.name} of a {expected.DESCRIPTOR.name}")
    return ""


def _plain(model: ModelProto) -> ModelProto:
    """Copies a model with all values in raw_data and without empty texts, for comparison."""
    plain = copied(model)
    for owner, field, text in list(texts(plain)):
        if text == "" and isinstance(getattr(owner, field.name), str):
            owner.ClearField(field.name)  # the parser of onnx writes empty domains
    for tensor in walk.tensors(plain):
        if tensor.data_location != TensorProto.EXTERNAL and tensor.data_type in ELEMENTS:
            values = from_array(to_array(tensor), tensor.name)
            for name in wire.PAYLOAD.values():
                tensor.ClearField(name)
            tensor.raw_data = values.raw_data
    return plain


@contextmanager
def _silenced() -> Iterator[None]:
    """Suppresses the warning of onnx that a format is experimental."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _serializer(path: str) -> ProtoSerializer:
    from opshift.protos.whole import serialization

    ending = os.path.splitext(path)[1]
    form = serialization.registry.get_format_from_file_extension(ending)
    if form is None:
        raise BadDestination(
            f"{path}: onnx has no file format with the extension {ending!r}; use .onnx"
        )
    return serialization.registry.get(form)
