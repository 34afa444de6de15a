# SPDX-License-Identifier: Apache-2.0
"""Copies messages, and reads models that are given as messages or as bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from google.protobuf.message import Message

from opshift.protos import ModelProto

_Message = TypeVar("_Message", bound=Message)


def copy_of(message: _Message) -> _Message:
    """Returns a copy of a message."""
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


def replace_all(field: Any, messages: Iterable[Message]) -> None:
    """Replaces the messages of a repeated field by copies of messages, which it may contain."""
    copies = list(map(copy_of, messages))
    del field[:]
    field.extend(copies)


def as_model(model: bytes | ModelProto) -> ModelProto:
    """Returns a model, which is a message or its bytes; a message is not copied."""
    return ModelProto.FromString(model) if isinstance(model, bytes) else model


def copied(model: bytes | ModelProto) -> ModelProto:
    """Returns a copy of a model, which is a message or its bytes."""
    return ModelProto.FromString(model) if isinstance(model, bytes) else copy_of(model)
