# SPDX-License-Identifier: Apache-2.0
"""A node that holds graphs as a frame: its bytes, with a place for every name inside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from opshift.convert.classes.rows import FORM, Unproven
from opshift.model.bytes import wire

# Bytes that stay, the tag of a name, or a tag with the frame of the message behind it.
Frame: TypeAlias = tuple[Any, ...]

_GRAPH_TYPE, _GRAPHS_TYPE = b"\xa0\x01\x05", b"\xa0\x01\x0a"  # of an attribute

_NODE, _ATTRIBUTE, _GRAPH, _TENSOR, _VALUE = range(5)
_NAME = -1  # in the table: the field is a name
_PLACES: tuple[dict[int, int], ...] = tuple(
    {number << 3 | 2: held for number, held in fields.items()}
    for fields in (
        {1: _NAME, 2: _NAME, 3: _NAME, 5: _ATTRIBUTE, 6: _NAME},
        {6: _GRAPH, 11: _GRAPH},
        {
            1: _NODE, 2: _NAME, 5: _TENSOR, 10: _NAME, 11: _VALUE, 12: _VALUE, 13: _VALUE,
        },
        {8: _NAME, 12: _NAME},
        {1: _NAME, 3: _NAME},
    )
)  # fmt: skip


def holds_graphs(data: bytes, pos: int = 0, end: int | None = None) -> bool:
    """Whether an attribute between these positions may hold graphs."""
    return data.find(_GRAPH_TYPE, pos, end) >= 0 or data.find(_GRAPHS_TYPE, pos, end) >= 0


def take_apart(data: bytes) -> tuple[Frame, list[bytes]]:
    """The frame of a node, and the names that are not empty in their order."""
    names: list[bytes] = []
    try:
        return _frame(data, 0, len(data), _NODE, names), names
    except (IndexError, wire.Malformed):
        raise Unproven(FORM) from None


def _frame(data: bytes, pos: int, end: int, kind: int, names: list[bytes]) -> Frame:
    place_of, parts = _PLACES[kind].get, list[Any]()
    done = pos
    while pos < end:  # for every field of every node inside: nothing to spare
        tag = data[pos]
        if tag & 7 != 2 or tag > 0x7F:
            pos = wire.skip(data, pos, end)
            continue
        size, body = data[pos + 1], pos + 2
        if size > 0x7F:
            size, body = wire.read_varint(data, pos + 1)
        stop = body + size
        held = place_of(tag)
        if held is None or not size:
            pos = stop
            continue
        if held == _NAME:
            if done < pos:
                parts.append(data[done:pos])
            parts.append(tag)
            names.append(data[body:stop])
            done = stop
        elif held != _ATTRIBUTE or holds_graphs(data, body, stop):
            if stop > end:
                raise Unproven(FORM)
            if done < pos:
                parts.append(data[done:pos])
            parts.append((tag, _frame(data, body, stop, held, names)))
            done = stop
        pos = stop
    if pos != end:
        raise Unproven(FORM)
    if done < end:
        parts.append(data[done:end])
    return tuple(parts)


def filled(frame: Frame, names: Iterator[bytes]) -> bytes:
    """The bytes of a node with these names."""
    out = []
    for part in frame:
        if part.__class__ is bytes:
            out.append(part)
        elif part.__class__ is int:
            out.append(framed(part, next(names)))
        else:
            out.append(framed(part[0], filled(part[1], names)))
    return b"".join(out)


def framed(tag: int, body: bytes) -> bytes:
    """A field of one byte's tag."""
    size = len(body)
    return b"%c%c%b" % (tag, size, body) if size < 0x80 else wire.framed(tag >> 3, body)
