# SPDX-License-Identifier: Apache-2.0
"""The nodes of a large graph as columns, read from its bytes without parsing one of them."""

from __future__ import annotations

import functools
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import TYPE_CHECKING, TypeAlias

from opshift.model.bytes import wire
from opshift.records import dataclass

if TYPE_CHECKING:
    from opshift.convert.classes.nested import Nested

Span: TypeAlias = tuple[int, int, int]  # the start of a field, of its body, and the end
Others: TypeAlias = dict[int, list[Span]]  # the fields of a graph beside its nodes, by number
# A node without names, the shapes of both lists, and how many values its graphs capture.
Signature: TypeAlias = tuple[bytes, int, int, int]

INPUT, OUTPUT, NAME, OP, ATTRIBUTE, DOC, DOMAIN, OVERLOAD, METADATA = (
    n << 3 | 2 for n in range(1, 10)
)
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
    """What is here is not understood, for this reason; it may be legal."""


class Unordered(Unproven):
    """A node reads what nothing before it defines."""


FORM = "bytes in a form that no writer uses"
LARGE = "a large payload that is not carved"


@dataclass(frozen=True, slots=True)
class Rows:
    """The nodes in order: the bytes that say what they compute, and the names around them.

    A node begins at `starts` with its tag; its signature without the domain ends at `stops`, and
    the fields behind it end at `ends`. The field with its name ends at `name_ends`, 0 without one.
    """

    starts: Sequence[int]
    stops: Sequence[int]
    ends: Sequence[int]
    name_starts: Sequence[int]
    name_ends: Sequence[int]
    noted: bool  # whether some node has metadata
    kinds: list[int]  # which of the signatures a node has
    signatures: list[Signature]
    inputs: list[bytes]
    input_ends: Sequence[int]
    outputs: list[bytes]
    output_ends: Sequence[int]

    def with_graphs(self, nested: Mapping[int, Nested]) -> Rows:
        """The rows with the signatures of nodes that hold graphs, which read what they capture."""
        signatures, inputs, ends = list[Signature](), list[bytes](), list[int]()
        for row, kind in enumerate(self.kinds):
            inputs += self.inputs_of(row)
            if row in nested:
                inputs += nested[row].captures
            signatures.append(nested[row].signature if row in nested else self.signatures[kind])
            ends.append(len(inputs))
        kinds, signatures = distinct(signatures)
        return replace(self, kinds=kinds, signatures=signatures, inputs=inputs, input_ends=ends)

    def inputs_of(self, row: int) -> Sequence[bytes]:
        return self.inputs[self.input_ends[row - 1] if row else 0 : self.input_ends[row]]

    def outputs_of(self, row: int) -> Sequence[bytes]:
        return self.outputs[self.output_ends[row - 1] if row else 0 : self.output_ends[row]]


@dataclass(frozen=True, slots=True)
class Parts:
    """The fields of a graph: where its nodes begin, and the others."""

    nodes: array[int]  # as objects, the positions of a large graph would take more than its bytes
    others: Others
    large: bool  # whether some field may hold a payload that is carved


def names_in(data: bytes, others: Others, field: GraphField) -> Iterator[bytes]:
    """The names of the inputs, the outputs or the initializers of a graph."""
    for _, body, end in others.get(field, ()):
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
    nodes = array("q")
    others: Others = {}
    large = False
    try:
        while pos < end:  # the one loop over every field: nothing to spare
            if data[pos] == _NODE:
                nodes.append(pos)
                size = data[pos + 1]
                if size < 0x80:
                    pos += 2 + size
                else:
                    size, body = wire.read_varint(data, pos + 1)
                    pos = body + size
                    large |= size > wire.THRESHOLD
                continue
            first = pos
            tag, body = wire.read_varint(data, pos)
            if tag & 7 != 2:
                raise Unproven(FORM)
            size, body = wire.read_varint(data, body)
            pos = body + size
            large |= size > wire.THRESHOLD
            others.setdefault(tag >> 3, []).append((first, body, pos))
    except (IndexError, wire.Malformed):
        raise Unproven(FORM) from None
    if pos != end:
        raise Unproven(FORM)
    return Parts(nodes, others, large)


def distinct(keys: Iterable[Signature]) -> tuple[list[int], list[Signature]]:
    """Which of the distinct keys each one is, and those."""
    index: dict[Signature, int] = {}
    return [index.setdefault(key, len(index)) for key in keys], list(index)


def read(data: bytes, parts: Parts) -> Rows:
    """The rows of the nodes of a graph."""
    if len(parts.nodes) < FEW:
        return _read_few(data, parts.nodes)
    from opshift.convert.classes import columns

    return columns.read(data, parts.nodes)


def _read_few(data: bytes, starts: Sequence[int]) -> Rows:
    """Reads node by node: in a small graph that costs less than numpy does."""
    stops, ends, name_starts, name_ends = list[int](), list[int](), list[int](), list[int]()
    signatures, noted = list[Signature](), False
    inputs, input_ends, outputs, output_ends = (
        list[bytes](),
        list[int](),
        list[bytes](),
        list[int](),
    )
    for start in starts:
        size, pos = wire.read_varint(data, start + 1)
        end = pos + size
        begin, stop, last, name, domain = -1, 0, 0, (0, 0), b""
        given, results, absent = len(inputs), len(outputs), False
        while pos < end:
            tag = data[pos]
            size, body = data[pos + 1], pos + 2
            if size > 0x7F:
                size, body = wire.read_varint(data, pos + 1)
            after = body + size
            if tag < last or after > end:
                raise Unproven(FORM)
            if tag == INPUT:
                inputs.append(data[body:after])
                absent |= not size
            elif tag == OUTPUT:
                outputs.append(data[body:after])
                absent |= not size
            elif tag == ATTRIBUTE:
                stop = after
            elif tag == OP:
                if begin >= 0:
                    raise Unproven(FORM)
                begin, stop = pos, after
            elif tag == NAME:
                name = (pos, after)
            elif tag == DOMAIN:
                domain += wire.framed(7, data[body:after]) if size else b""
            elif tag == OVERLOAD and size:
                domain += wire.framed(8, data[body:after])
            elif tag == METADATA:
                noted = True
            elif tag != DOC:
                raise Unproven(FORM)
            pos, last = after, tag
        if begin < 0:
            raise Unproven(FORM)
        shapes = len(inputs) - given, len(outputs) - results
        if absent or max(shapes) >> ABSENT:
            shapes = _shape(inputs[given:]), _shape(outputs[results:])
        signatures.append((data[begin:stop] + domain, *shapes, 0))
        stops.append(stop)
        ends.append(end)
        name_starts.append(name[0])
        name_ends.append(name[1])
        input_ends.append(len(inputs))
        output_ends.append(len(outputs))
    return Rows(
        starts, stops, ends, name_starts, name_ends, noted,
        *distinct(signatures), inputs, input_ends, outputs, output_ends,
    )  # fmt: skip


def _shape(names: Sequence[bytes]) -> int:
    """How many names there are, and which are empty."""
    if len(names) >= 1 << ABSENT:
        raise Unproven("many inputs of a node")
    if b"" not in names:
        return len(names)
    return len(names) | sum(1 << ABSENT + i for i, name in enumerate(names) if not name)


@functools.lru_cache(maxsize=1024)
def names_of(shape: int, letter: str) -> tuple[bytes, ...]:
    """A list of names of this shape: letter and number, empty where a node leaves one out."""
    count, absent = shape & (1 << ABSENT) - 1, shape >> ABSENT
    return tuple(b"" if absent >> i & 1 else f"{letter}{i}".encode() for i in range(count))


def inputs_of(signature: Signature) -> tuple[bytes, ...]:
    """The names of what a node reads, in its list of inputs and then in its graphs."""
    own = names_of(signature[1], "i")
    return own + tuple(b"i%d" % (len(own) + i) for i in range(signature[3]))
