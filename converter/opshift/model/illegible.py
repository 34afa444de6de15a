# SPDX-License-Identifier: Apache-2.0
"""Finds the texts of a message, including texts that are not UTF-8 in a broken message."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from opshift.errors import InvalidModel
from opshift.protos import ModelProto

PACKAGE = "opshift.legible"
LONGEST = 60  # the number of bytes of a text that a message shows


def texts(message: Message) -> Iterator[tuple[Message, FieldDescriptor, str | bytes]]:
    """Yields each text of a message and its submessages, with its owner and field."""
    waiting = [_held(message)]  # nested generators, one for each level, would be slow
    while waiting:
        for owner, field, content in waiting[-1]:
            if isinstance(content, Message):
                waiting.append(_held(content))
                break
            yield owner, field, content
        else:
            waiting.pop()


def _held(message: Message) -> Iterator[tuple[Message, FieldDescriptor, str | bytes | Message]]:
    """Yields the texts and submessages of a message, one at a time."""
    for field, value in message.ListFields():
        if field.type in (FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_STRING):
            for item in [value] if isinstance(value, (str, bytes, Message)) else value:
                yield message, field, item


@functools.cache
def _strict() -> type[Message]:
    """Returns a message class for models that rejects texts which are not UTF-8."""
    file = FileDescriptorProto()
    ModelProto.DESCRIPTOR.file.CopyToProto(file)
    old, file.package, file.name, file.syntax = file.package, PACKAGE, f"{PACKAGE}.proto", "proto3"
    waiting = [*file.message_type]
    while waiting:
        message = waiting.pop()
        waiting += message.nested_type
        for field in message.field:
            field.ClearField("default_value")
            if field.type_name:
                field.type_name = field.type_name.replace(f".{old}.", f".{PACKAGE}.", 1)
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.ModelProto"))


def require_legible(data: bytes) -> None:
    """Raises InvalidModel if a text in a serialized model is not UTF-8; needs a full parse."""
    try:
        _strict().FromString(data)
    except DecodeError:
        message = illegible(ModelProto.FromString(data))
        if message is not None:
            raise InvalidModel(message) from None


def illegible(message: Message) -> str | None:
    """Describes the first text field that is not UTF-8, which protobuf returns as bytes."""
    for owner, field, text in texts(message):
        if isinstance(text, bytes):
            shown = repr(text[:LONGEST]) + "..." * (len(text) > LONGEST)
            return f"the {field.name} {shown} of a {owner.DESCRIPTOR.name} is not UTF-8"
    return None
