# SPDX-License-Identifier: Apache-2.0
"""Text that is not UTF-8, which a broken message may hold in any place."""

from __future__ import annotations

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message


def illegible(message: Message) -> str | None:
    """Describes the first text field that is not UTF-8, which protobuf returns as bytes."""
    for field, value in message.ListFields():
        if field.type not in (FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_STRING):
            continue
        for one in [value] if isinstance(value, (str, bytes, Message)) else value:
            if isinstance(one, bytes):
                return f"the {field.name} {one!r} of a {message.DESCRIPTOR.name} is not UTF-8"
            if isinstance(one, Message) and (told := illegible(one)):
                return told
    return None
