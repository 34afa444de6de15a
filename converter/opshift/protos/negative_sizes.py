# SPDX-License-Identifier: Apache-2.0
"""Models without negative sizes: onnx ends the process where a Slice reads one.

Some exporters write -1 for a size that they do not know, and every runtime reads it so.
"""

from __future__ import annotations

import re

from google.protobuf.message import DecodeError, Message

from opshift.protos import ModelProto, TensorShapeProto

_END = b"\xff\xff\xff\xff\xff\x01"  # of each negative number from -(2 ** 28) on
_SIZE = re.compile(rb"\x08[\x80-\xff]{4}" + _END)  # behind the tag of a size


def unknown(data: bytes) -> bytes:
    """A model in which negative sizes are unknown ones."""
    if data.find(_END) < 0 or _SIZE.search(data) is None:
        return data
    try:
        model = ModelProto.FromString(data)
    except DecodeError:
        return data
    _clear(model)
    return model.SerializeToString()


def _clear(message: Message) -> None:
    if isinstance(message, TensorShapeProto.Dimension):
        if message.dim_value < 0:
            message.ClearField("dim_value")
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            for one in [value] if isinstance(value, Message) else value:
                _clear(one)
