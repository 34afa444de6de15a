# SPDX-License-Identifier: Apache-2.0
"""Copies messages without their large payloads."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from opshift.model.bytes import wire
from opshift.model.bytes.external import has_payload
from opshift.model.walk import HOLDERS
from opshift.model.weights.payloads import HEADER, InModel, Source, Weights
from opshift.opsets.elements import ELEMENTS
from opshift.protos import AttributeProto, NodeProto, TensorProto

THRESHOLD = wire.THRESHOLD


def copy_lean(source: Message, copy: Message, sources: list[Source]) -> None:
    """Copies a message field by field, and descends only into fields that can hold a tensor."""
    for field, value in source.ListFields():
        kind = field.message_type.name if field.message_type else ""
        if kind not in _LEAN:
            merge(copy, field.name, value)
        elif isinstance(value, Message):
            child = getattr(copy, field.name)
            child.SetInParent()
            _LEAN[kind](value, child, sources)
        elif kind == "NodeProto":
            _copy_nodes(value, getattr(copy, field.name), sources)
        else:
            lean, add = _LEAN[kind], getattr(copy, field.name).add
            for child in value:
                lean(child, add(), sources)
    _copy_unknown(source, copy)


def merge(message: Message, name: str, value: Any) -> None:
    if hasattr(value, "MergeFrom"):
        getattr(message, name).MergeFrom(value)
    else:
        setattr(message, name, value)


def _copy_nodes(nodes: Iterable[NodeProto], copies: Any, sources: list[Source]) -> None:
    """Copies nodes all at once, or one by one if some have a large tensor or a subgraph."""
    holds: dict[str, bool] = {"Constant": True}  # the first Constant need not hold a tensor
    heavy: set[int] = set()
    for i, node in enumerate(nodes):
        op = node.op_type
        if op not in holds:
            # One check per operator is enough, because a wrong guess only copies a payload.
            holds[op] = any(attribute.type in HOLDERS for attribute in node.attribute)
        if holds[op] and not _is_light(node):
            heavy.add(i)
    if not heavy:
        copies.extend(nodes)
        return
    for i, node in enumerate(nodes):
        if i in heavy:
            copy_lean(node, copies.add(), sources)
        else:
            copies.add().CopyFrom(node)


def _is_light(node: NodeProto) -> bool:
    for attribute in node.attribute:
        kind = attribute.type
        if kind in HOLDERS and (kind != AttributeProto.TENSOR or is_large(attribute.t)):
            return False
    return True


def _copy_tensor(tensor: TensorProto, copy: TensorProto, sources: list[Source]) -> None:
    """Copies a tensor, but without the payload if the tensor is large."""
    if not is_large(tensor):
        copy.CopyFrom(tensor)
        return
    copy_header(tensor, copy)
    copy.external_data.add(key=wire.MARK, value=str(len(sources)))
    sources.append(InModel(tensor))


_LEAN: dict[str, Any] = {
    "GraphProto": copy_lean,
    "NodeProto": copy_lean,
    "AttributeProto": copy_lean,
    "FunctionProto": copy_lean,
    "TrainingInfoProto": copy_lean,
    "SparseTensorProto": copy_lean,
    "TensorProto": _copy_tensor,
}


def is_large(tensor: TensorProto) -> bool:
    """Returns whether a tensor is well-formed and large, without a copy of its payload."""
    elements = prod(tensor.dims)
    if elements <= THRESHOLD // 16:  # an element has at most 16 bytes
        return False
    row = ELEMENTS.get(tensor.data_type)
    bits = row.bits if row is not None else 0
    if not 8 * THRESHOLD < elements * bits <= 8 * wire.LIMIT or Weights.is_stub(tensor):
        return False
    fields = {n for n, name in wire.PAYLOAD.items() if has_payload(tensor, name)}
    return (
        wire.fits(tensor.data_type, fields)
        and (fields == {wire.RAW} or _is_whole(tensor, elements))
        and not tensor.string_data
        and not tensor.HasField("segment")
    )


def _is_whole(tensor: TensorProto, elements: int) -> bool:
    """Returns whether the typed field is complete; len(raw_data) would copy the data."""
    numbers = getattr(tensor, wire.PAYLOAD[ELEMENTS[tensor.data_type].field])
    return len(numbers) == wire.entries(tensor.data_type, elements)


def copy_header(tensor: TensorProto, copy: TensorProto) -> None:
    for name in HEADER:
        value = getattr(tensor, name)
        if hasattr(value, "extend") or tensor.HasField(name):
            merge(copy, name, value)
    _copy_unknown(tensor, copy)


def _copy_unknown(source: Message, copy: Message) -> None:
    if unknown := UnknownFieldSet(source):
        copy.MergeFromString(_encode_unknown(unknown))


def _encode_unknown(fields: UnknownFieldSet) -> bytes:
    out = []
    for field in fields:  # type: ignore[attr-defined]  # it has __getitem__ only
        tag = wire.varint(field.field_number << 3 | field.wire_type)
        match field.wire_type:
            case 0:
                body = wire.varint(field.data)
            case 1 | 5:
                body = field.data.to_bytes(8 if field.wire_type == 1 else 4, "little")
            case 2:
                body = wire.varint(len(field.data)) + field.data
            case _:
                body = _encode_unknown(field.data) + wire.varint(field.field_number << 3 | 4)
        out.append(tag + body)
    return b"".join(out)
