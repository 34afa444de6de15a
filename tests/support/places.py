# SPDX-License-Identifier: Apache-2.0
"""Every place of ONNX's messages that can hold a kind of message, from protobuf's descriptors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message
from onnx import AttributeProto, ModelProto

# What an attribute says of itself when one of its fields holds a message.
KIND_OF_FIELD = {
    "t": AttributeProto.TENSOR,
    "g": AttributeProto.GRAPH,
    "sparse_tensor": AttributeProto.SPARSE_TENSOR,
    "tp": AttributeProto.TYPE_PROTO,
    "tensors": AttributeProto.TENSORS,
    "graphs": AttributeProto.GRAPHS,
    "sparse_tensors": AttributeProto.SPARSE_TENSORS,
    "type_protos": AttributeProto.TYPE_PROTOS,
}


@dataclass(frozen=True)
class Place:
    """A path from a model to a message: the names of its fields."""

    fields: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(self.fields)

    def add(self, model: ModelProto) -> Any:
        """Adds a message at this place, with all outer messages."""
        message: Any = model
        for name in self.fields:
            if isinstance(message, AttributeProto):
                message.type = KIND_OF_FIELD[name]
            value = getattr(message, name)
            if isinstance(value, Message):
                value.SetInParent()
                message = value
            else:
                message = value.add()
        return message


def places(kind: str, deepest: int = 2) -> list[Place]:
    """Returns all paths to a message type that repeat no type more often than `deepest`."""
    return [Place(fields) for fields in _ways(ModelProto.DESCRIPTOR, kind, (), (), deepest)]


def _ways(
    at: Descriptor, kind: str, fields: tuple[str, ...], passed: tuple[str, ...], deepest: int
) -> Iterator[tuple[str, ...]]:
    if at.name == kind and fields:
        yield fields
    if passed.count(at.name) >= deepest:
        return
    for field in at.fields:
        if field.message_type is not None:
            way = (*fields, field.name)
            yield from _ways(field.message_type, kind, way, (*passed, at.name), deepest)
