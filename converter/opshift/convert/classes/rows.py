# SPDX-License-Identifier: Apache-2.0
"""The nodes of a large graph as columns, read from its bytes without parsing one of them."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from opshift.model.bytes import wire
from opshift.records import dataclass

if TYPE_CHECKING:
    from opshift.convert.classes.nested import Nested

Positions: TypeAlias = NDArray[np.int64]
Other: TypeAlias = tuple[int, int, int, int]  # number, start, start of the body, end of a field
# A node without names, the shapes of both lists, and how many values its graphs capture.
Signature: TypeAlias = tuple[bytes, int, int, int]

_INPUT, _OUTPUT, _NAME, _OP, _ATTRIBUTE, _DOC, _DOMAIN, _METADATA = (
    n << 3 | 2 for n in (1, 2, 3, 4, 5, 6, 7, 9)
)
_FIELDS = frozenset((_INPUT, _OUTPUT, _NAME, _OP, _ATTRIBUTE, _DOC, _DOMAIN, _METADATA))
_KNOWN = np.zeros(256, bool)
_KNOWN[list(_FIELDS)] = True
FEW = 150  # nodes
_NODE = 1 << 3 | 2
ABSENT = 16  # bits of a shape: below it how many names there are, above it which are empty


class GraphField(IntEnum):
    """The numbers of the fields of a GraphProto."""

    NODE = 1
    NAME = 2
    INITIALIZER = 5
    DOC = 10
    INPUT = 11
    OUTPUT = 12
    VALUE_INFO = 13
    SPARSE = 15
    METADATA = 16


class Unproven(Exception):  # noqa: N818 - an answer, not an error
    """What is here is not understood; nothing is said about whether it is legal."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The nodes in order: the bytes that say what they compute, and the names around them.

    A node begins at `starts` with its tag; its signature without the domain ends at `stops`, and
    the fields behind it end at `ends`. The field with its name ends at `name_ends`, 0 without one.
    """

    starts: Sequence[int]
    stops: Sequence[int] | Positions
    ends: Sequence[int] | Positions
    name_starts: Sequence[int] | Positions
    name_ends: Sequence[int] | Positions
    noted: bool  # whether some node has metadata
    kinds: list[int]  # which of the signatures a node has
    signatures: list[Signature]
    inputs: list[bytes]
    input_ends: list[int]
    outputs: list[bytes]
    output_ends: list[int]

    def with_graphs(self, nested: Mapping[int, Nested]) -> Rows:
        """The rows with the signatures of nodes that hold graphs, which read what they capture."""
        signatures, inputs, ends = list[Signature](), list[bytes](), list[int]()
        for row, kind in enumerate(self.kinds):
            inputs += self.inputs_of(row)
            if row in nested:
                inputs += nested[row].captures
            signatures.append(nested[row].signature if row in nested else self.signatures[kind])
            ends.append(len(inputs))
        kinds, signatures = _distinct(signatures)
        return replace(self, kinds=kinds, signatures=signatures, inputs=inputs, input_ends=ends)

    def inputs_of(self, row: int) -> Sequence[bytes]:
        return self.inputs[self.input_ends[row - 1] if row else 0 : self.input_ends[row]]

    def outputs_of(self, row: int) -> Sequence[bytes]:
        return self.outputs[self.output_ends[row - 1] if row else 0 : self.output_ends[row]]


@dataclass(slots=True)
class Column:
    """One field of all nodes: which node it is in, where it begins, its body and its end."""

    row: Positions
    start: Positions
    body: Positions
    end: Positions


@dataclass(frozen=True, slots=True)
class Parts:
    """The fields of a graph: where its nodes, their bodies and their ends are, and the others."""

    tags: list[int]
    starts: Positions
    ends: Positions
    others: list[Other]


def names_in(data: bytes, others: Iterable[Other], field: GraphField) -> Iterator[bytes]:
    """The names of the inputs, the outputs or the initializers of a graph."""
    for number, _, body, end in others:
        if number == field:
            yield name_of(data[body:end], field)


def name_of(data: bytes, field: GraphField) -> bytes:
    """The name of a tensor or of a described value, which is in such a field of a graph."""
    tag, found = (8 if field == GraphField.INITIALIZER else 1) << 3 | 2, b""
    for _, have, body, end, _ in wire.fields(data, 0, len(data)):
        if have == tag:
            found = data[body:end]
    return found


def split(data: bytes, pos: int, end: int) -> Parts:
    """The fields of the graph between these positions."""
    tags: list[int] = []
    starts: list[int] = []
    ends: list[int] = []
    others: list[Other] = []
    try:
        while pos < end:  # the one loop over every field: nothing to spare
            if data[pos] == _NODE:
                tags.append(pos)
                size = data[pos + 1]
                if size < 0x80:
                    pos += 2
                else:
                    size, pos = wire.read_varint(data, pos + 1)
                starts.append(pos)
                pos += size
                ends.append(pos)
                continue
            first = pos
            tag, body = wire.read_varint(data, pos)
            if tag & 7 != 2:
                raise Unproven
            size, body = wire.read_varint(data, body)
            pos = body + size
            others.append((tag >> 3, first, body, pos))
    except (IndexError, wire.Malformed):
        raise Unproven from None
    if pos != end:
        raise Unproven
    return Parts(tags, np.array(starts, np.int64), np.array(ends, np.int64), others)


def _distinct(keys: Iterable[Signature]) -> tuple[list[int], list[Signature]]:
    """Which of the distinct keys each one is, and those."""
    index: dict[Signature, int] = {}
    return [index.setdefault(key, len(index)) for key in keys], list(index)


def read(data: bytes, parts: Parts) -> Rows:
    """The rows of the nodes of a graph."""
    return _read_few(data, parts) if len(parts.tags) < FEW else _read_many(data, parts)


def _read_few(data: bytes, parts: Parts) -> Rows:
    """Reads node by node: in a small graph that costs less than numpy does."""
    stops, name_starts, name_ends = list[int](), list[int](), list[int]()
    signatures, noted = list[Signature](), False
    inputs, input_ends, outputs, output_ends = (
        list[bytes](),
        list[int](),
        list[bytes](),
        list[int](),
    )
    ends = parts.ends.tolist()
    for pos, end in zip(parts.starts.tolist(), ends, strict=True):
        begin, stop, last, name, domain = -1, 0, 0, (0, 0), b""
        given, results = len(inputs), len(outputs)
        while pos < end:
            tag = data[pos]
            size, body = data[pos + 1], pos + 2
            if size > 0x7F:
                size, body = wire.read_varint(data, pos + 1)
            after = body + size
            if tag < last or after > end:
                raise Unproven
            if tag == _INPUT:
                inputs.append(data[body:after])
            elif tag == _OUTPUT:
                outputs.append(data[body:after])
            elif tag == _ATTRIBUTE:
                stop = after
            elif tag == _OP:
                if begin >= 0:
                    raise Unproven
                begin, stop = pos, after
            elif tag == _NAME:
                name = (pos, after)
            elif tag == _DOMAIN:
                domain += wire.framed(7, data[body:after]) if size else b""
            elif tag == _METADATA:
                noted = True
            elif tag != _DOC:
                raise Unproven
            pos, last = after, tag
        if begin < 0:
            raise Unproven
        shapes = _shape(inputs[given:]), _shape(outputs[results:])
        signatures.append((data[begin:stop] + domain, *shapes, 0))
        stops.append(stop)
        name_starts.append(name[0])
        name_ends.append(name[1])
        input_ends.append(len(inputs))
        output_ends.append(len(outputs))
    return Rows(
        parts.tags, stops, ends, name_starts, name_ends, noted,
        *_distinct(signatures), inputs, input_ends, outputs, output_ends,
    )  # fmt: skip


def _shape(names: Sequence[bytes]) -> int:
    """How many names there are, and which are empty."""
    if len(names) >= 1 << ABSENT:
        raise Unproven
    if b"" not in names:
        return len(names)
    return len(names) | sum(1 << ABSENT + i for i, name in enumerate(names) if not name)


def _read_many(data: bytes, parts: Parts) -> Rows:
    """Reads the first field of every node, then the second, and so on."""
    columns = _columns(np.frombuffer(data, np.uint8), parts.starts, parts.ends)
    count = len(parts.tags)
    op = columns.get(_OP)
    if op is None or len(op.row) != count:
        raise Unproven
    begin, stop = np.full(count, -1, np.int64), np.empty(count, np.int64)
    begin[op.row], stop[op.row] = op.start, op.end
    if begin.min() < 0:
        raise Unproven
    if (attributes := columns.get(_ATTRIBUTE)) is not None:
        np.maximum.at(stop, attributes.row, attributes.end)
    raw = _slices(data, begin, stop)
    if (domains := columns.get(_DOMAIN)) is not None:
        for row, domain in zip(
            domains.row.tolist(), _slices(data, domains.body, domains.end), strict=True
        ):
            raw[row] += wire.framed(7, domain) if domain else b""
    inputs, input_ends, input_shapes = _names(data, columns.get(_INPUT), count)
    outputs, output_ends, output_shapes = _names(data, columns.get(_OUTPUT), count)
    kinds, signatures = _distinct(zip(raw, input_shapes, output_shapes, itertools.repeat(0)))
    name_starts, name_ends = np.zeros(count, np.int64), np.zeros(count, np.int64)
    if (names := columns.get(_NAME)) is not None:
        name_starts[names.row], name_ends[names.row] = names.start, names.end
    return Rows(
        parts.tags, stop, parts.ends, name_starts, name_ends, _METADATA in columns,
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
            raise Unproven
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
            raise Unproven
        at[longer] += 1
        byte = buffer.take(at[longer], mode="clip").astype(np.int64)
        size[longer] |= (byte & 0x7F) << shift
        longer, shift = longer[byte > 0x7F], shift + 7
    body = at + 1
    return body, body + size


def _names(
    data: bytes, column: Column | None, count: int
) -> tuple[list[bytes], list[int], list[int]]:
    """The names in a field of all nodes, where those of each node end, and their shapes."""
    if column is None:
        return [], [0] * count, [0] * count
    order = np.argsort(column.body)
    bodies, stops = column.body[order], column.end[order]
    sizes = np.bincount(column.row, minlength=count)
    ends, shapes = sizes.cumsum().tolist(), sizes.tolist()
    if len(column.row) and max(shapes) >= 1 << ABSENT:
        raise Unproven
    for index in np.flatnonzero(bodies == stops).tolist():
        row = int(column.row[order[index]])
        first = ends[row - 1] if row else 0
        shapes[row] |= 1 << ABSENT + index - first
    return _slices(data, bodies, stops), ends, shapes


@functools.lru_cache(maxsize=1024)
def names_of(shape: int, letter: str) -> tuple[bytes, ...]:
    """A list of names of this shape: letter and number, empty where a node leaves one out."""
    count, absent = shape & (1 << ABSENT) - 1, shape >> ABSENT
    return tuple(b"" if absent >> i & 1 else f"{letter}{i}".encode() for i in range(count))


def inputs_of(signature: Signature) -> tuple[bytes, ...]:
    """The names of what a node reads, in its list of inputs and then in its graphs."""
    own = names_of(signature[1], "i")
    return own + tuple(b"i%d" % (len(own) + i) for i in range(signature[3]))


def _slices(data: bytes, starts: Positions, ends: Positions) -> list[bytes]:
    return [data[i:j] for i, j in zip(starts.tolist(), ends.tolist(), strict=True)]
