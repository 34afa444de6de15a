# SPDX-License-Identifier: Apache-2.0
"""The texts of a message, and those that are not UTF-8, which a broken message may hold."""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message


def texts(message: Message) -> Iterator[tuple[Message, FieldDescriptor, str | bytes]]:
    """Every text field of a message and of those inside, by its owner, with one value at a time."""
    waiting = [_held(message)]  # a generator in a generator for each level would be slow
    while waiting:
        for owner, field, one in waiting[-1]:
            if isinstance(one, Message):
                waiting.append(_held(one))
                break
            yield owner, field, one
        else:
            waiting.pop()


def _held(message: Message) -> Iterator[tuple[Message, FieldDescriptor, str | bytes | Message]]:
    """The texts and messages of a message, one value at a time."""
    for field, value in message.ListFields():
        if field.type in (FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_STRING):
            for one in [value] if isinstance(value, (str, bytes, Message)) else value:
                yield message, field, one


def is_legible(message: Message, data: bytes) -> bool:
    """Whether every text of a message with these bytes is UTF-8, as it is where all is ASCII."""
    return data.isascii() or illegible(message) is None


def illegible(message: Message) -> str | None:
    """Describes the first text field that is not UTF-8, which protobuf returns as bytes."""
    for owner, field, text in texts(message):
        if isinstance(text, bytes):
            return f"the {field.name} {text!r} of a {owner.DESCRIPTOR.name} is not UTF-8"
    return None
