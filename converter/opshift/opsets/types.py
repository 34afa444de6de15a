# SPDX-License-Identifier: Apache-2.0
"""Reads and compares types: element types, ranks and dimensions of a TypeProto."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TypeAlias

from opshift.opsets import schemas
from opshift.protos import NodeProto, TensorProto, TensorShapeProto, TypeProto

Dims: TypeAlias = tuple[int | str | None, ...]  # each a number, a symbol, or unknown
LARGEST_RANK = 64  # of numpy, which allows more than the runtimes


def rank_of(proto: TypeProto | None) -> int | None:
    if proto is None or not proto.HasField("tensor_type"):
        return None
    tensor = proto.tensor_type
    return len(tensor.shape.dim) if tensor.HasField("shape") else None


def element_of(proto: TypeProto | None) -> str:
    """Returns the element type of a tensor, or the whole name of another type, or ""."""
    text = schemas.type_name(proto) or ""
    return text[len("tensor(") : -1] if text.startswith("tensor(") else text


def elements_by_variable(
    node: NodeProto, schema: schemas.Schema, type_of: Callable[[str], TypeProto | None]
) -> dict[str, str]:
    """Returns the element type of each type variable that the node uses; "" if unknown."""
    elements: dict[str, str] = {}
    for name, param in schema.ends(node.input, node.output):
        if not elements.get(param.variable):
            elements[param.variable] = element_of(type_of(name))
    return elements


def dims_of(proto: TypeProto) -> Dims:
    """Returns the dimensions of a tensor whose rank is known."""
    return tuple(
        # Some exporters write -1 for an unknown size, and every runtime accepts this.
        d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else d.dim_param or None
        for d in proto.tensor_type.shape.dim
    )


def parts_of(proto: TypeProto) -> Iterator[TypeProto]:
    """Yields a type and each type inside it, the outermost first."""
    part: TypeProto | None = proto
    while part is not None:
        yield part
        match part.WhichOneof("value"):
            case "sequence_type" | "optional_type" as kind:
                part = getattr(part, kind).elem_type
            case "map_type":
                part = part.map_type.value_type
            case _:
                part = None


def tensors_in(proto: TypeProto) -> Iterator[TypeProto.Tensor | TypeProto.SparseTensor]:
    """Yields the tensor types in a type, also inside containers; callers may change them."""
    for part in parts_of(proto):
        kind = part.WhichOneof("value")
        if kind in ("tensor_type", "sparse_tensor_type"):
            yield getattr(part, kind)


def without_lengths(proto: TypeProto) -> TypeProto:
    """Returns a copy of a type with the rank but without the lengths of every tensor."""
    return without_dims(proto, lambda dim: True)


def without_dims(
    proto: TypeProto, is_removed: Callable[[TensorShapeProto.Dimension], bool]
) -> TypeProto:
    """Returns a copy of a type in which the lengths of some dimensions are unknown."""
    copy = TypeProto()
    copy.CopyFrom(proto)
    for tensor in tensors_in(copy):
        for dim in filter(is_removed, tensor.shape.dim):
            dim.Clear()
    return copy


LENGTH = "opshift.length."
"""The prefix of internal symbols for unknown lengths. No model has such a symbol."""


def without_symbols(proto: TypeProto) -> TypeProto:
    """Returns a copy of a type without the internal symbols of unknown lengths."""
    return without_dims(proto, lambda dim: dim.dim_param.startswith(LENGTH))


def shown_type(proto: TypeProto) -> str:
    """Returns a type as text, such as `tensor(float)`, or `tensor(float)[2,?]` with a rank."""
    name = schemas.type_name(proto) or "a value of unknown type"
    if rank_of(proto) is None:
        return name
    return f"{name}[{','.join('?' if d is None else str(d) for d in dims_of(proto))}]"


def alike(was: TypeProto, now: TypeProto) -> bool:
    """Returns whether the known element types and ranks of two types are equal."""
    names, ranks = (schemas.type_name(was), schemas.type_name(now)), (rank_of(was), rank_of(now))
    return all(None in pair or pair[0] == pair[1] for pair in (names, ranks))


def confirms(inferred: TypeProto, declared: TypeProto) -> bool:
    """Returns whether a known type agrees with a declared type and has all its lengths."""
    if not alike(inferred, declared) or rank_of(inferred) is None is not rank_of(declared):
        return False
    pairs = zip(dims_of(inferred), dims_of(declared), strict=False)
    return all(ours == theirs for ours, theirs in pairs if isinstance(theirs, int))


def is_complete(proto: TypeProto) -> bool:
    tensor = proto.tensor_type
    return (
        proto.HasField("tensor_type")
        and tensor.elem_type != 0
        and tensor.HasField("shape")
        and all(dim.HasField("dim_value") for dim in tensor.shape.dim)
    )


def is_vague(proto: TypeProto | None) -> bool:
    """Returns whether a type has no known rank, or is an int64 tensor of unknown length."""
    if proto is None:
        return True
    if not proto.HasField("tensor_type"):
        return False
    whole = proto.tensor_type.elem_type == TensorProto.INT64
    return rank_of(proto) is None or (whole and not is_complete(proto))


def claims_more(declared: TypeProto, inferred: TypeProto | None) -> bool:
    """Returns whether a declared type has lengths that the known type lacks."""
    if inferred is None or not inferred.HasField("tensor_type"):
        return False
    known_dims, declared_dims = inferred.tensor_type.shape.dim, declared.tensor_type.shape.dim
    return len(known_dims) == len(declared_dims) and any(
        b.HasField("dim_value") and not a.HasField("dim_value")
        for a, b in zip(known_dims, declared_dims, strict=True)
    )


def better(declared: TypeProto | None, inferred: TypeProto | None) -> TypeProto | None:
    if declared is None or inferred is None:
        return inferred or declared
    return inferred if _knowledge(inferred) > _knowledge(declared) else declared


def shared(first: TypeProto | None, second_type: TypeProto | None) -> TypeProto | None:
    """Returns the common type of two values, which have equal element types."""
    if first is None or second_type is None:
        kind = first or second_type
        return None if kind is None else _without_ranks(kind)
    copy = TypeProto()
    copy.CopyFrom(first)
    tensors, other_tensors = [*tensors_in(copy)], [*tensors_in(second_type)]
    if len(tensors) != len(other_tensors):
        return None
    for tensor, second in zip(tensors, other_tensors, strict=True):
        tensor.elem_type = tensor.elem_type or second.elem_type
        if len(tensor.shape.dim) != len(second.shape.dim) or not second.HasField("shape"):
            tensor.ClearField("shape")
        for dim, other_dim in zip(tensor.shape.dim, second.shape.dim, strict=False):
            if dim != other_dim:
                dim.Clear()
    return copy


def stacked(proto: TypeProto) -> TypeProto:
    """Returns the type of a tensor that stacks tensors of this type along a new first axis."""
    result = TypeProto()
    result.tensor_type.elem_type = proto.tensor_type.elem_type
    if rank_of(proto) is not None:
        result.tensor_type.shape.dim.add()
        result.tensor_type.shape.dim.extend(proto.tensor_type.shape.dim)
    return result


def _without_ranks(proto: TypeProto) -> TypeProto:
    copy = TypeProto()
    copy.CopyFrom(proto)
    for tensor in tensors_in(copy):
        tensor.ClearField("shape")
    return copy


def _knowledge(proto: TypeProto) -> tuple[bool, bool, int]:
    tensor = proto.tensor_type
    has_name = schemas.type_name(proto) is not None
    static = sum(dim.HasField("dim_value") for dim in tensor.shape.dim)
    return has_name, tensor.HasField("shape"), static


def is_small(proto: TypeProto | None) -> bool:
    if proto is None or not is_complete(proto):
        return False
    size = 1
    for dim in proto.tensor_type.shape.dim:
        size *= dim.dim_value
    return size <= 256


def is_readable(proto: TypeProto | None) -> bool:
    """Returns whether inference may need the elements of a value, such as sizes or axes."""
    if proto is None or not is_small(proto):
        return False
    size = math.prod(dim.dim_value for dim in proto.tensor_type.shape.dim)
    return size <= 16 or is_countable(proto)


def is_countable(proto: TypeProto) -> bool:
    """Returns whether the elements of a value may be sizes, axes or counts."""
    return is_small(proto) and proto.tensor_type.elem_type in _COUNTS


_COUNTS = (TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL)
