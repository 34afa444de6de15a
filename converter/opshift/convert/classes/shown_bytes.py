# SPDX-License-Identifier: Apache-2.0
"""The bytes of one node, one input or one tensor, as the checker and inference are shown them."""

from __future__ import annotations

import functools
import re

from opshift.convert.classes.rows import Signature, names_of
from opshift.model.bytes import wire
from opshift.model.weights.store import is_carved
from opshift.protos import NodeProto, TensorProto, TypeProto


@functools.lru_cache(maxsize=1024)
def named(signature: Signature) -> bytes:
    """A node of this signature."""
    raw, inputs, outputs, _ = signature
    names = [wire.framed(1, name) for name in names_of(inputs, "i")]
    names += [wire.framed(2, name) for name in names_of(outputs, "o")]
    return b"".join([*names, raw])


def without_places(signature: Signature) -> Signature:
    """The signature of a node whose carved tensors may be anywhere."""
    node = NodeProto.FromString(signature[0])
    for one in node.attribute:
        for entry in one.t.external_data:
            if entry.key == wire.MARK:
                entry.value = ""
    return node.SerializeToString(deterministic=True), *signature[1:]


def checkable(node: NodeProto, signature: Signature) -> bytes:
    """The bytes of a node for the checker, which must not miss the payload of a carved tensor."""
    if not any(map(is_carved, node.attribute)):
        return named(signature)
    shown = NodeProto()
    shown.CopyFrom(node)
    for one in filter(is_carved, shown.attribute):
        one.t.CopyFrom(TensorProto(dims=[0], data_type=one.t.data_type))
    return shown.SerializeToString()


def described(name: bytes, kind: bytes | None) -> bytes:
    """The body of a ValueInfoProto."""
    return wire.framed(1, name) + (wire.framed(2, kind) if kind is not None else b"")


@functools.lru_cache(maxsize=1024)
def graph_input(name: bytes, kind: bytes | None) -> bytes:
    """An input of a graph."""
    return wire.framed(11, described(name, kind))


def bare_tensor(kind: bytes) -> bytes:
    """A tensor of this type without a payload, which inference does not ask for."""
    found = TypeProto.FromString(kind).tensor_type
    dims = [dim.dim_value for dim in found.shape.dim]
    return TensorProto(data_type=found.elem_type, dims=dims).SerializeToString()


# As most writers begin a tensor: dims, element type, and the name when the values are raw.
_BEGINNING = re.compile(
    rb"(?:\x08[\x80-\xff]*[\x00-\x7f])*\x10[\x00-\x7f]B([\x00-\x7f])", re.DOTALL
)


def around_name(data: bytes) -> tuple[bytes, bytes, bytes] | None:
    """The name of a tensor, and the bytes before and behind it."""
    if (found := _BEGINNING.match(data)) is not None:
        start = found.end()
        stop = start + data[start - 1]
        return data[start:stop], data[: start - 2], data[stop:]
    try:
        for start, tag, body, end, _ in wire.fields(data, 0, len(data)):
            if tag == 8 << 3 | 2:
                return data[body:end], data[:start], data[end:]
    except (IndexError, wire.Malformed):
        return None
    return None
