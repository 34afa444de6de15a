# SPDX-License-Identifier: Apache-2.0
"""Reads and writes the bytes of tensors and messages without a protobuf library."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from typing import TypeAlias

from opshift.model.bytes.ranges import Moved
from opshift.model.bytes.source import Pages
from opshift.opsets.elements import ELEMENTS, T

Buffer: TypeAlias = bytes | Pages

MARK = "opshift.carved"

THRESHOLD = 4096
"""The largest payload in bytes that stays in the skeleton."""

LIMIT = 2**31 - 1
"""The largest message that protobuf can read."""

PAYLOAD = {
    4: "float_data",
    5: "int32_data",
    7: "int64_data",
    9: "raw_data",
    10: "double_data",
    11: "uint64_data",
}
RAW = 9

_FLOAT, _DOUBLE = 4, 10
_COMPLEX = (T.COMPLEX64, T.COMPLEX128)


AS_RAW = (RAW, _FLOAT, _DOUBLE)
"""Payload fields whose bytes are equal to the bytes of raw_data."""

MARK_KEY = b"\n" + bytes([len(MARK)]) + MARK.encode()
"""The encoded key of the external_data entry that marks a tensor without its payload."""


def fits(data_type: int, fields: set[int]) -> bool:
    """Returns whether a payload is in exactly one field that its element type may use."""
    return data_type in ELEMENTS and fields in ({RAW}, {ELEMENTS[data_type].field})


def raw_size(data_type: int, count: int) -> int:
    """Returns the number of bytes that this number of elements has in raw_data."""
    return -(-ELEMENTS[data_type].bits * count // 8)


def entries(data_type: int, count: int) -> int:
    """Returns the number of entries that this number of elements has in the typed field."""
    bits = ELEMENTS[data_type].bits
    if data_type in _COMPLEX:
        return 2 * count
    return -(-count * bits // 8) if bits < 6 else count


_SHORT = [bytes([value]) for value in range(0x80)]


def varint(value: int) -> bytes:
    """Encodes an unsigned integer as a varint, as lengths and tags are encoded."""
    if value < 0x80:
        return _SHORT[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def framed(number: int, body: bytes) -> bytes:
    """Encodes a length-delimited field of a protobuf message."""
    return header(number, len(body)) + body


def header(number: int, size: int) -> bytes:
    """Encodes the tag and the length of a length-delimited field."""
    return varint(number << 3 | 2) + varint(size)


def marker(n: int) -> bytes:
    """Encodes the external_data entry that marks tensor number n as a tensor without payload."""
    return framed(_EXTERNAL_DATA, MARK_KEY + framed(2, str(n).encode()))


class Malformed(ValueError):  # noqa: N818 - it becomes InvalidModel
    """The bytes are not a model; the message gives the reason."""


NO_FIELD = "byte {} does not begin a field of a model"
LONGER = "the field at byte {} goes beyond the end of the message that holds it"


# --- reading --------------------------------------------------------------------------------------

_TENSOR, _GRAPH, _NODE, _ATTRIBUTE, _SPARSE, _FUNCTION, _TRAINING, MODEL = range(8)

_CHILDREN = {
    MODEL: {7: _GRAPH, 20: _TRAINING, 25: _FUNCTION},
    _TRAINING: {1: _GRAPH, 2: _GRAPH},
    _FUNCTION: {7: _NODE, 11: _ATTRIBUTE},
    _GRAPH: {1: _NODE, 5: _TENSOR, 15: _SPARSE},
    _NODE: {5: _ATTRIBUTE},
    _ATTRIBUTE: {5: _TENSOR, 6: _GRAPH, 10: _TENSOR, 11: _GRAPH, 22: _SPARSE, 23: _SPARSE},
    _SPARSE: {1: _TENSOR, 2: _TENSOR},
}
"""The fields of each kind of message that can contain a tensor."""

_ONE_TENSOR = {_ATTRIBUTE: (5, 22), _SPARSE: (1, 2)}
"""Fields that must occur once, because two occurrences would be parts of one tensor."""

_DEPTH = 100

_DATA_TYPE, _LOCATION = 2 << 3, 14 << 3  # tags of varint fields
_SEGMENT, _STRINGS, _EXTERNAL_DATA = 3, 6, 13


def read_varint(data: Buffer, pos: int) -> tuple[int, int]:
    """Decodes a varint; returns its value and the position after it."""
    value = shift = 0
    while True:
        byte = data[pos]
        value |= (byte & 0x7F) << shift
        pos += 1
        if byte < 0x80:
            return value, pos
        shift += 7
        if shift > 63:
            raise Malformed(f"the bytes before byte {pos} do not encode a number")


def seek(
    data: Buffer, pos: int, end: int, over: int, past: int = 0
) -> tuple[int, int, int, int] | None:
    """Finds the next length-delimited field of more than `over` bytes that ends after `past`.

    Returns the start and the number of the field, and the start and end of its content. Small
    fields are skipped as a whole, because the loop runs for every node.
    """
    start = pos
    while pos < end:
        view, base, safe = _window(data, pos, end)
        at, stop, behind = pos - base, min(end, safe) - base, past - base
        while at < stop:
            first = at
            tag = view[at]
            at += 1
            if tag > 0x7F:
                tag, at = read_varint(view, first)
            if tag & 7 != 2:
                if not tag:
                    raise Malformed(NO_FIELD.format(base + first))
                at = _skip(data, base + at, end, tag) - base if tag & 7 else _end(view, at)
                continue
            size = view[at]
            at += 1
            if size > 0x7F:
                size, at = read_varint(view, at - 1)
            body, at = at, at + size
            if size > over and at > behind and base + at <= end:
                return base + first, tag >> 3, base + body, base + at
        start, pos = base + first, base + at
    if pos != end:
        raise Malformed(LONGER.format(start))
    return None


def _window(data: Buffer, pos: int, end: int) -> tuple[bytes, int, int]:
    """Returns bytes around a position, their offset, and the end of the complete fields."""
    return (data, 0, end) if isinstance(data, bytes) else data.window(pos)


def fields(data: Buffer, pos: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
    """Yields every field: its start, tag, the start of its body, its end, and a varint's value.

    No function is called for a number of one byte, because the loop runs for every tensor.
    """
    view, base, safe = b"", 0, pos
    while pos < end:
        if pos >= safe:
            view, base, safe = _window(data, pos, end)
        start, value, body = pos, 0, pos - base + 1
        tag = view[body - 1]
        if tag > 0x7F:
            tag, body = read_varint(view, body - 1)
        if tag & 7 == 2:
            size = view[body]
            body += 1
            if size > 0x7F:
                size, body = read_varint(view, body - 1)
            pos = base + body + size
        elif tag & 7 == 0:
            if not tag:
                raise Malformed(NO_FIELD.format(start))
            value, pos = read_varint(view, body)
            pos += base
        else:
            pos = _skip(data, base + body, end, tag)
        if pos > end:
            raise Malformed(LONGER.format(start))
        yield start, tag, base + body, pos, value


def _end(view: bytes, at: int) -> int:
    """Returns the end of a varint."""
    return at + 1 if view[at] < 0x80 else read_varint(view, at)[1]


def _skip(data: Buffer, pos: int, end: int, tag: int) -> int:
    match tag & 7:
        case 0:
            return read_varint(data, pos)[1]
        case 1:
            return pos + 8
        case 5:
            return pos + 4
        case 3:
            return _skip_group(data, pos, end, tag >> 3)
    raise Malformed(NO_FIELD.format(pos - 1))


def _skip_group(data: Buffer, pos: int, end: int, number: int) -> int:
    """Skips a group; ONNX has none, but unknown fields may be groups."""
    open_groups = [number]
    while open_groups:
        if pos >= end:
            raise Malformed(f"a group is not closed at byte {pos}")
        tag, pos = read_varint(data, pos)
        if tag & 7 == 3:
            open_groups.append(tag >> 3)
        elif tag & 7 == 4:
            if open_groups.pop() != tag >> 3:
                raise Malformed(f"a group is not closed at byte {pos}")
        elif tag & 7 == 2:
            size, pos = read_varint(data, pos)
            pos += size
        else:
            pos = _skip(data, pos, end, tag)
    return pos


# --- carving --------------------------------------------------------------------------------------

Runs: TypeAlias = tuple[tuple[int, int], ...]
"""The ranges of bytes of a payload, with its protobuf tags."""


def carve(data: Buffer, threshold: int) -> tuple[bytes, list[tuple[int, Runs]]]:
    """Returns the model's bytes without large payloads, and the place of each removed payload."""
    carver = _Carver(data, threshold)
    pieces = carver.model()
    skeleton = data[:] if pieces is None else b"".join(pieces)
    if skeleton.count(MARK_KEY) != len(carver.payloads):
        raise Malformed(f"a tensor of the model already has the mark {MARK!r}")
    return skeleton, carver.payloads


def has_payloads(data: bytes) -> bool:
    """Returns whether a model has large payloads, or bytes in which they cannot be found."""
    try:
        return _Carver(data, THRESHOLD).model() is not None
    except Malformed:
        return True


class _Carver:
    def __init__(self, data: Buffer, threshold: int) -> None:
        self.data = data
        self.threshold = threshold
        self.payloads: list[tuple[int, Runs]] = []

    def model(self) -> list[bytes] | None:
        """Returns the model without large payloads, in pieces; None if no payload is large."""
        try:
            return self.message(MODEL, 0, len(self.data), depth=0)
        except IndexError:
            raise Malformed("the file ends in the middle of a field") from None

    def message(self, kind: int, pos: int, end: int, depth: int) -> list[bytes] | None:
        """Returns the message without large payloads, in pieces; None if no payload is large."""
        if depth > _DEPTH:
            raise Malformed(f"the messages of the file are nested more than {_DEPTH} levels deep")
        if kind == _TENSOR:
            return self.tensor(pos, end)
        pieces: list[bytes] = []
        children, first, done = _CHILDREN[kind], pos, pos
        while field := seek(self.data, pos, end, self.threshold):
            start, number, body, pos = field
            if number not in children:
                continue
            lean = self.message(children[number], body, pos, depth + 1)
            if lean is None:
                continue
            pieces.append(self.data[done:start])
            pieces.append(header(number, sum(map(len, lean))))
            pieces += lean
            done = pos
        if not pieces:
            return None
        if kind in _ONE_TENSOR:
            self.refuse_parts(kind, first, end)
        return [*pieces, self.data[done:end]]

    def refuse_parts(self, kind: int, pos: int, end: int) -> None:
        numbers = [tag >> 3 for _, tag, *_ in fields(self.data, pos, end)]
        if any(numbers.count(number) > 1 for number in _ONE_TENSOR[kind]):
            raise Malformed(f"the tensor at byte {pos} is written in several parts")

    def tensor(self, pos: int, end: int) -> list[bytes] | None:
        """Returns a well-formed tensor without its payload if the payload is large; else None."""
        runs: list[tuple[int, int]] = []
        numbers, data_type = set(), 0
        for start, tag, _, stop, value in fields(self.data, pos, end):
            number = tag >> 3
            if number in PAYLOAD:
                numbers.add(number)
                if runs and runs[-1][1] == start:
                    start = runs.pop()[0]
                runs.append((start, stop))
            elif number in (_SEGMENT, _STRINGS):
                return None
            elif tag == _DATA_TYPE:
                data_type = value
            elif tag == _LOCATION and value:
                return None
        size = sum(stop - start for start, stop in runs)
        if size <= self.threshold or not fits(data_type, numbers):
            return None
        gaps = zip(
            [pos, *(stop for _, stop in runs)], [*(start for start, _ in runs), end], strict=True
        )
        stub = [self.data[start:stop] for start, stop in gaps]
        stub.append(marker(len(self.payloads)))
        self.payloads.append((numbers.pop(), tuple(runs)))
        return stub


# --- weaving --------------------------------------------------------------------------------------


Payload: TypeAlias = tuple[int, Sequence[bytes | Moved]]
"""The field number of a payload, and its bytes with the tags."""


def weave(skeleton: bytes, payload: Callable[[str], Payload]) -> list[memoryview | bytes | Moved]:
    """Puts the payloads back into a serialized model, each in place of its marker."""
    return _Weaver(skeleton, payload).message(MODEL, 0, len(skeleton))


class _Weaver:
    def __init__(self, data: bytes, payload: Callable[[str], Payload]) -> None:
        self.data = data
        self.view = memoryview(data)
        self.payload = payload
        self.next = data.find(MARK_KEY)

    def advance(self, pos: int) -> None:
        while 0 <= self.next < pos:
            self.next = self.data.find(MARK_KEY, self.next + 1)

    def message(self, kind: int, pos: int, end: int) -> list[memoryview | bytes | Moved]:
        if kind == _TENSOR:
            return self.tensor(pos, end)
        pieces: list[memoryview | bytes | Moved] = []
        done = pos
        while 0 <= self.next < end:
            field = seek(self.data, pos, end, 0, self.next)
            if field is None:
                break
            start, number, body, pos = field
            if number in _CHILDREN[kind]:
                child = self.message(_CHILDREN[kind][number], body, pos)
                pieces += [self.view[done:start], header(number, total(child)), *child]
                done = pos
            self.advance(pos)
        return [*pieces, self.view[done:end]]

    def tensor(self, pos: int, end: int) -> list[memoryview | bytes | Moved]:
        """Puts the payload back into a tensor in place of its marker."""
        before: list[tuple[int, int]] = []  # the fields before the marker, in order
        for start, tag, body, stop, _ in fields(self.data, pos, end):
            if body == self.next and tag >> 3 == _EXTERNAL_DATA:
                entry = {t >> 3: self.data[b:s] for _, t, b, s, _ in fields(self.data, body, stop)}
                number, payload = self.payload(entry.get(2, b"").decode(errors="replace"))
                at = next((where for field_number, where in before if field_number > number), start)
                return [self.view[pos:at], *payload, self.view[at:start], self.view[stop:end]]
            before.append((tag >> 3, start))
        return [self.view[pos:end]]


def total(pieces: Iterable[Sized]) -> int:
    """Returns the number of bytes in all pieces."""
    return sum(map(len, pieces))
