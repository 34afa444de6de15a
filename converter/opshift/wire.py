"""How tensors and messages are laid out in bytes; knows field numbers, but no protobuf library."""

from __future__ import annotations

MARK = "opshift.carved"

PAYLOAD = {
    4: "float_data",
    5: "int32_data",
    7: "int64_data",
    9: "raw_data",
    10: "double_data",
    11: "uint64_data",
}
RAW = 9

_FLOAT, _INT32, _INT64, _DOUBLE, _UINT64 = 4, 5, 7, 10, 11

STORAGE = {
    **dict.fromkeys((2, 3, 9), (8, _INT32)),  # uint8 int8 bool
    **dict.fromkeys((4, 5, 10, 16), (16, _INT32)),  # uint16 int16 float16 bfloat16
    **dict.fromkeys((17, 18, 19, 20, 24), (8, _INT32)),  # float8
    **dict.fromkeys((21, 22, 23), (4, _INT32)),  # uint4 int4 float4
    **dict.fromkeys((25, 26), (2, _INT32)),  # uint2 int2
    **dict.fromkeys((27, 28), (6, _INT32)),  # float6
    1: (32, _FLOAT),
    6: (32, _INT32),
    7: (64, _INT64),
    11: (64, _DOUBLE),
    12: (32, _UINT64),
    13: (64, _UINT64),
    14: (64, _FLOAT),  # complex: pairs
    15: (128, _DOUBLE),
}
"""Element type -> (bits per element in raw_data, the field besides raw_data that can hold it)."""


def varint(value: int) -> bytes:
    """Encode an unsigned integer the way lengths and tags are written."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def framed(number: int, body: bytes) -> bytes:
    """A length-delimited field."""
    return varint(number << 3 | 2) + varint(len(body)) + body


def find_field(data: bytes, number: int) -> tuple[int, int, int] | None:
    """Where the first field of that number is: start of its tag, start and end of its body."""
    pos = 0
    while pos < len(data):
        start = pos
        tag, pos = read_varint(data, pos)
        size, pos = read_varint(data, pos)
        match tag & 7:
            case 0:
                size = 0  # the "length" was the value itself
            case 2:
                pass
            case _:
                return None
        if tag >> 3 == number:
            return start, pos, pos + size
        pos += size
    return None


def read_varint(data: bytes, pos: int) -> tuple[int, int]:
    """A varint and the position after it."""
    value = shift = 0
    while True:
        byte = data[pos]
        value |= (byte & 0x7F) << shift
        pos += 1
        if byte < 0x80:
            return value, pos
        shift += 7
