# SPDX-License-Identifier: Apache-2.0
"""Removes negative sizes from messages, because onnx crashes if a Slice reads one.

Some exporters write -1 for an unknown size, and every runtime treats it as unknown.
"""

from __future__ import annotations

import functools
import re

from google.protobuf.message import DecodeError, Message

from opshift.protos import ModelProto, TensorShapeProto, TypeProto

_NEGATIVE = re.compile(rb"\x08[\x80-\xff]{9}\x01")  # the encoding of a negative size, after its tag
# A negative size at the start of a dimension, in a shape whose fields are in order.
_IN_A_SHAPE = re.compile(
    rb"\x0a(?:[\x0b-\x7f]|[\x80-\xff]{1,4}[\x00-\x7f])" + _NEGATIVE.pattern, re.DOTALL
)


def unknown(data: bytes, of: type[ModelProto | TypeProto] = ModelProto) -> bytes:
    """Returns a model or a type in which negative sizes became unknown sizes."""
    if _NEGATIVE.search(data) is None:
        return data
    message = of()
    try:
        message.MergeFromString(data)
    except DecodeError:
        return data
    if _IN_A_SHAPE.search(message.SerializeToString()) is None:  # most matches are other numbers
        return data
    _clear(message)
    return message.SerializeToString()


def _clear(message: Message) -> None:
    if isinstance(message, TensorShapeProto.Dimension):
        if message.dim_value < 0:
            message.ClearField("dim_value")
        return
    for field, value in message.ListFields():
        if field.message_type is not None and field.message_type.full_name in _holders():
            for submessage in [value] if isinstance(value, Message) else value:
                # most messages contain no negative size
                if _NEGATIVE.search(submessage.SerializeToString()) is not None:
                    _clear(submessage)


@functools.cache
def _holders() -> frozenset[str]:
    """Returns the messages that can contain a size at any depth."""
    inside: dict[str, set[str]] = {}  # for each message, the messages in its fields
    waiting = [ModelProto.DESCRIPTOR]
    while waiting:
        descriptor = waiting.pop()
        if descriptor.full_name not in inside:
            contained = [
                field.message_type for field in descriptor.fields if field.message_type is not None
            ]
            inside[descriptor.full_name] = {message.full_name for message in contained}
            waiting += contained
    holders = {TensorShapeProto.Dimension.DESCRIPTOR.full_name}
    while more := {name for name, contained in inside.items() if contained & holders} - holders:
        holders |= more
    return frozenset(holders)
