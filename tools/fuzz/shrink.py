# SPDX-License-Identifier: Apache-2.0
"""Makes the model of a finding smaller, as long as the finding stays the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from google.protobuf.message import DecodeError, Message
from onnx import ModelProto

from tools.fuzz.case import Case

Holds = Callable[[Case], bool]


def shrunk(case: Case, holds: Holds) -> Case:
    """Removes every field of the model that the finding does not need."""
    try:
        ModelProto.FromString(case.model)
    except DecodeError:
        return case
    smaller = True
    while smaller:
        smaller = False
        for model in _simpler(ModelProto.FromString(case.model)):
            other = dataclasses.replace(case, model=model)
            if len(model) < len(case.model) and holds(other):
                case, smaller = other, True
                break
    return case


def _simpler(model: ModelProto) -> Iterator[bytes]:
    """Yields models without one field, or without a part of a list; outer fields come first."""
    waiting: list[Message] = [model]
    while waiting:
        message = waiting.pop(0)
        for field, value in message.ListFields():
            if isinstance(value, (Message, str, bytes, int, float)):
                kept = type(message)()
                kept.CopyFrom(message)
                message.ClearField(field.name)
                yield model.SerializeToString()
                message.CopyFrom(kept)
            else:
                yield from _shorter(model, message, field.name)
        waiting += _children(message)


def _shorter(model: ModelProto, message: Message, name: str) -> Iterator[bytes]:
    size = len(getattr(message, name))
    part = size
    while part:
        for start in range(0, size, part):
            kept = type(message)()
            kept.CopyFrom(message)
            del getattr(message, name)[start : start + part]
            yield model.SerializeToString()
            message.CopyFrom(kept)
        part //= 2


def _children(message: Message) -> list[Message]:
    children: list[Message] = []
    for _, value in message.ListFields():
        if isinstance(value, Message):
            children.append(value)
        elif not isinstance(value, (str, bytes, int, float)):
            children += [element for element in value if isinstance(element, Message)]
    return children
