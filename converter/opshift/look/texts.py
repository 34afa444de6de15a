# SPDX-License-Identifier: Apache-2.0
"""Finds the texts of a model that affect no result: documentation, metadata and denotations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from google.protobuf.message import Message

from opshift.model.walk import named
from opshift.protos import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
)

_FIELDS = ("doc_string", "metadata_props", "denotation")
_NAMED = (
    (GraphProto, "graph"), (FunctionProto, "function"), (ValueInfoProto, "value"),
    (TensorProto, "tensor"),
)  # fmt: skip


def texts_of(model: ModelProto) -> dict[str, str]:
    """Returns the texts of a model and its parts, by a unique name for each text.

    Equal names, such as those of two unnamed nodes, are numbered.
    """
    texts: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for name, text in _texts(model, ""):
        counts[name] += 1
        texts[f"{name} ({counts[name]})" if counts[name] > 1 else name] = repr(text)
    return texts


def remove(model: ModelProto) -> None:
    """Removes all documentation, metadata and denotations from a model and its parts."""
    for message in _messages(model):
        for name in _FIELDS:
            if name in message.DESCRIPTOR.fields_by_name:
                message.ClearField(name)


def _texts(message: Message, owner: str) -> Iterator[tuple[str, str]]:
    owner = _named(message, owner)
    of = f" of {owner}" if owner else ""
    for field, value in message.ListFields():
        if field.name in ("doc_string", "denotation"):
            if value:
                yield f"{field.name}{of}", value
        elif field.name == "metadata_props":
            yield from ((f"{entry.key}{of}", entry.value) for entry in value)
        elif field.message_type is not None:
            parts = [value] if isinstance(value, Message) else value
            for number, part in enumerate(parts):
                inside = f"dimension {number} of {owner}" if field.name == "dim" else owner
                yield from _texts(part, inside)


def _named(message: Message, owner: str) -> str:
    """Returns the name of a part of a model; an unnamed part has the name of the part around it."""
    if isinstance(message, NodeProto):
        return f"node {named(message)}"
    if isinstance(message, AttributeProto):
        return f"attribute {message.name!r} of {owner}"
    for kind, word in _NAMED:
        if isinstance(message, kind):
            return f"{word} {message.name!r}"
    return owner


def _messages(message: Message) -> Iterator[Message]:
    """Yields a protobuf message and every message inside it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in [value] if isinstance(value, Message) else value:
                yield from _messages(part)
