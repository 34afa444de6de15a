# SPDX-License-Identifier: Apache-2.0
"""Turns the answers to an adapter's questions into values that can be compared."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Hashable
from typing import Any, TypeAlias

from opshift.author.bounds import Bounds
from opshift.author.node import TypePart
from opshift.lazy import numpy as np
from opshift.model.arrays import Array
from opshift.opsets.types import rank_of, without_lengths
from opshift.protos import AttributeProto, NodeProto, TensorProto, TypeProto
from opshift.protos.helper import add_dims

Dims: TypeAlias = "tuple[int | str | None, ...]"
Symbol: TypeAlias = Callable[[str], str]
_LONG = 1024  # bytes; longer attributes are compared by their digest
_GRAPHS = (AttributeProto.GRAPH, AttributeProto.GRAPHS)


class Untraceable(Exception):  # noqa: N818 - a signal, not an error
    """Raised if a call of an adapter cannot be recorded."""


class NoAnswer(Untraceable):
    """Raised if one result of a call cannot be recorded, although other results can."""


class ConstantAnswer:
    """A constant that equals other constants with the same type, shape and elements."""

    __slots__ = ("_key", "array")

    def __init__(self, array: Array) -> None:
        self.array = array
        if array.dtype.hasobject:
            content: Hashable = tuple(array.reshape(-1).tolist())
        else:
            raw = array.tobytes()
            content = raw if len(raw) <= _LONG else hashlib.sha256(raw).digest()
        self._key = (array.dtype, array.shape, content)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConstantAnswer) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def of_constant(array: Array | None) -> ConstantAnswer | None:
    return None if array is None else ConstantAnswer(array)


def of_bounds(bounds: Bounds | None) -> Hashable:
    if bounds is None:
        return None
    low, high = (tuple(part.reshape(-1).tolist()) for part in (bounds.low, bounds.high))
    return low, high, bounds.low.shape, bounds.each


def bounds_of(answer: Any) -> Bounds | None:
    if answer is None:
        return None
    low, high, shape, each = answer
    first, last = (np.array(part, dtype=object).reshape(shape) for part in (low, high))
    return Bounds(first, last, each)


def of_type(proto: TypeProto | None, part: TypePart, symbol: Symbol) -> Hashable:
    """Returns the requested part of a type, with placeholders for symbols of dimensions."""
    if proto is None:
        return None
    if part is TypePart.RANK:
        return rank_of(proto)
    if proto.WhichOneof("value") != "tensor_type" or proto.denotation:
        plain = without_lengths(proto) if part is TypePart.ELEMENT else proto
        return plain.SerializeToString(deterministic=True)
    tensor = proto.tensor_type
    if part is TypePart.ELEMENT:
        return tensor.elem_type
    if not tensor.HasField("shape"):
        return tensor.elem_type, None
    dims = (
        entry.dim_value if entry.HasField("dim_value") else entry.dim_param
        for entry in tensor.shape.dim
    )
    entries = (symbol(dim) if isinstance(dim, str) and dim else dim for dim in dims)
    return tensor.elem_type, tuple(None if entry == "" else entry for entry in entries)


@functools.lru_cache(maxsize=4096)
def type_of(answer: Any, part: TypePart) -> TypeProto | None:
    """Returns a type with only the part that the adapter requested.

    The object is shared and must not be changed.
    """
    if answer is None:
        return None
    proto = TypeProto()
    if isinstance(answer, bytes):
        proto.ParseFromString(answer)
        return proto
    if part is TypePart.ELEMENT:
        proto.tensor_type.elem_type = answer
        return proto
    dims: Dims | None = (None,) * answer if part is TypePart.RANK else answer[1]
    if part is TypePart.ALL:
        proto.tensor_type.elem_type = answer[0]
    if dims is not None:
        add_dims(proto, dims)
    return proto


def of_node(node: NodeProto) -> tuple[Hashable, ...]:
    """Returns a node without names; raises Untraceable for subgraphs and external data."""
    overload = getattr(node, "overload", "")
    parts: list[Hashable] = [node.domain, node.op_type, overload, bool(node.name)]
    for attribute in node.attribute:
        if attribute.type in _GRAPHS or _is_elsewhere(attribute):
            raise Untraceable
        raw = attribute.SerializeToString(deterministic=True)
        parts.append(raw if len(raw) <= _LONG else hashlib.sha256(raw).digest())
    return tuple(parts)


def _is_elsewhere(attribute: AttributeProto) -> bool:
    sparse = attribute.sparse_tensor if attribute.HasField("sparse_tensor") else None
    tensors = [*attribute.tensors, *((sparse.values, sparse.indices) if sparse else ())]
    if attribute.HasField("t"):
        tensors.append(attribute.t)
    return any(tensor.data_location == TensorProto.EXTERNAL for tensor in tensors)
