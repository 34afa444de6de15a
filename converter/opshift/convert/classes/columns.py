# SPDX-License-Identifier: Apache-2.0
"""The fields of many nodes at once: the first of every node, then the second, and so on."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from opshift.convert.classes.rows import (
    ABSENT,
    ATTRIBUTE,
    DOC,
    DOMAIN,
    FORM,
    INPUT,
    METADATA,
    NAME,
    OP,
    OUTPUT,
    OVERLOAD,
    Rows,
    Unproven,
    distinct,
)
from opshift.model.bytes import wire
from opshift.records import dataclass

Positions: TypeAlias = NDArray[np.int64]

_BLOCK = 1 << 14
_KNOWN = np.zeros(256, bool)
_KNOWN[[INPUT, OUTPUT, NAME, OP, ATTRIBUTE, DOC, DOMAIN, OVERLOAD, METADATA]] = True


@dataclass(slots=True)
class Column:
    """One field of all nodes: which node it is in, where it begins, its body and its end."""

    row: Positions
    start: Positions
    body: Positions
    end: Positions


def read(data: bytes, starts: array[int]) -> Rows:
    """The rows of the nodes of a graph that begin at these positions."""
    buffer, count = np.frombuffer(data, np.uint8), len(starts)
    bodies, ends = _bodies(buffer, np.frombuffer(starts, np.int64))
    columns = _columns(buffer, bodies, ends)
    op = columns.get(OP)
    if op is None or len(op.row) != count:
        raise Unproven(FORM)
    begin, stop = np.full(count, -1, np.int64), np.empty(count, np.int64)
    begin[op.row], stop[op.row] = op.start, op.end
    if begin.min() < 0:
        raise Unproven(FORM)
    if (attributes := columns.get(ATTRIBUTE)) is not None:
        np.maximum.at(stop, attributes.row, attributes.end)
    raw = _slices(data, begin, stop)
    for tag in (DOMAIN, OVERLOAD):
        for row, text in _texts(data, columns.get(tag)):
            if not text and tag == OVERLOAD:
                raise Unproven(FORM)
            raw[row] += wire.framed(tag >> 3, text) if text else b""
    inputs, input_ends, input_shapes = _names(data, columns.get(INPUT), count)
    outputs, output_ends, output_shapes = _names(data, columns.get(OUTPUT), count)
    kinds, signatures = distinct(zip(raw, input_shapes, output_shapes, itertools.repeat(0)))
    name_starts, name_ends = np.zeros(count, np.int64), np.zeros(count, np.int64)
    if (names := columns.get(NAME)) is not None:
        name_starts[names.row], name_ends[names.row] = names.start, names.end
    return Rows(
        starts, _compact(stop), _compact(ends), _compact(name_starts), _compact(name_ends),
        METADATA in columns,
        kinds, signatures, inputs, input_ends, outputs, output_ends,
    )  # fmt: skip


def _columns(buffer: NDArray[np.uint8], starts: Positions, ends: Positions) -> dict[int, Column]:
    """Reads the first field of every node, then the second, and so on, all nodes at once."""
    found: dict[int, list[tuple[Positions, ...]]] = {}
    rows, pos, ends_left = np.arange(len(starts), dtype=np.int64), starts, ends
    last = np.zeros(len(starts), np.uint8)
    while True:
        more = pos < ends_left
        if not more.all():
            rows, pos, ends_left = rows[more], pos[more], ends_left[more]
            last = last[more]
        if not len(rows):
            break
        tags = buffer[pos]
        body, stop = _bodies(buffer, pos)
        # Every writer writes fields in the order of their numbers; others are left to onnx.
        if not _KNOWN[tags].all() or (tags < last).any() or (stop > ends_left).any():
            raise Unproven(FORM)
        for tag in np.flatnonzero(np.bincount(tags)).tolist():
            here = np.flatnonzero(tags == tag)
            part = (rows[here], pos[here], body[here], stop[here])
            found.setdefault(tag, []).append(part)
        pos, last = stop, tags
    return {
        tag: Column(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        for tag, parts in found.items()
    }


def _bodies(buffer: NDArray[np.uint8], pos: Positions) -> tuple[Positions, Positions]:
    """Where the bodies of the fields at these positions begin and end."""
    at = pos + 1
    byte = buffer.take(at, mode="clip").astype(np.int64)
    size, shift = byte & 0x7F, 7
    longer = np.flatnonzero(byte > 0x7F)
    while len(longer):
        if shift > 28:
            raise Unproven(FORM)
        at[longer] += 1
        byte = buffer.take(at[longer], mode="clip").astype(np.int64)
        size[longer] |= (byte & 0x7F) << shift
        longer, shift = longer[byte > 0x7F], shift + 7
    body = at + 1
    return body, body + size


def _names(
    data: bytes, column: Column | None, count: int
) -> tuple[list[bytes], Sequence[int], list[int]]:
    """The names in a field of all nodes, where those of each node end, and their shapes."""
    if column is None:
        return [], [0] * count, [0] * count
    order = np.argsort(column.body, kind="stable")  # quick where whole runs are in order
    bodies, stops = column.body[order], column.end[order]
    sizes = np.bincount(column.row, minlength=count)
    ends, shapes = _compact(sizes.cumsum()), sizes.tolist()
    if len(column.row) and max(shapes) >= 1 << ABSENT:
        raise Unproven("many inputs of a node")
    for index in np.flatnonzero(bodies == stops).tolist():
        row = int(column.row[order[index]])
        first = ends[row - 1] if row else 0
        shapes[row] |= 1 << ABSENT + index - first
    return _slices(data, bodies, stops), ends, shapes


def _texts(data: bytes, column: Column | None) -> Iterator[tuple[int, bytes]]:
    """The rows of the nodes that have a field, with its bytes."""
    if column is not None:
        yield from zip(column.row.tolist(), _slices(data, column.body, column.end), strict=True)


def _compact(numbers: Positions) -> Sequence[int]:
    """The numbers as Python reads them, in eight bytes each."""
    return array("q", numbers.tobytes())


def _slices(data: bytes, starts: Positions, ends: Positions) -> list[bytes]:
    """The bytes between these positions, a block at a time: all numbers at once are slower."""
    found: list[bytes] = []
    for at in range(0, len(starts), _BLOCK):
        block = zip(starts[at : at + _BLOCK].tolist(), ends[at : at + _BLOCK].tolist(), strict=True)
        found += [data[i:j] for i, j in block]
    return found
