# SPDX-License-Identifier: Apache-2.0
"""What a class knows of a value, and how far it may be trusted."""

from __future__ import annotations

import functools
from typing import NamedTuple

from opshift.author.node import TypePart
from opshift.author.present_types import element_types
from opshift.convert.classes.rows import Unproven
from opshift.model.bytes import wire
from opshift.opsets import schemas
from opshift.opsets.elements import ELEMENTS
from opshift.opsets.types import is_complete, rank_of
from opshift.protos import TensorProto, TypeProto

# The integers that inference reads from a tensor are shapes, axes and counts; the floats scales.
_INTEGERS = frozenset({TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL})
_FLOATS = frozenset((TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE))
MOST_TYPES = 4096  # whose answers are remembered: few types occur in many classes
UNKNOWN = 0  # the number of the facet of which nothing is known, and of an input left out
_MOST_INTEGERS, _MOST_OTHERS = 512, 16


class Facet(NamedTuple):
    """What is known of a value: first what the checks use, then what adapters are told."""

    kind: bytes | None = None  # the type
    value: bytes | None = None  # of a small constant
    listed: bool = False  # whether a caller may replace it
    trust: int = 0
    ranked: bytes | None = None  # the type without declarations, and with the ranks of adapters
    folded: bytes | None = None  # the value of what folding finds to be constant
    maker: tuple[int, ...] = ()  # signature and inputs of the node that computes counts
    long: bool = False  # whether it is a constant vector that is too long to be a value here

    def constant(self, ir_version: int) -> bytes | None:
        """The small constant that the value is, given or folded, unless callers may replace it."""
        # Up to IR 3 every initializer is listed among the inputs, and none may be replaced.
        if self.listed and ir_version > 3:
            return None
        return self.value if self.folded is None else self.folded


# What is sure of a facet beside its being sound: nobody who infers more can contradict it anyway.
PROVED = 1  # its rank and element type follow from the inputs of the model, without a declaration
EXACT = 2  # no inference finds a length that it does not have
VARIABLE = 4  # no folding can find its value
COMPUTED = 8  # a node computes it
FOLLOWED = 16  # inference of a whole model knows no more of its numbers than its makers tell
FOREIGN = 32  # it has no type because of a node before it whose operator has no schema
CALLED = 64  # a function of the model computes it, of which a reader is told no node
INPUT = PROVED | EXACT | VARIABLE


def is_told(found: TypeProto | None, what: TypePart) -> bool:
    """Whether nothing that a stronger inference finds could change what is told."""
    if what is TypePart.ELEMENT:
        return found is not None and schemas.type_name(found) is not None
    return (
        rank_of(found) is not None if what is TypePart.RANK else bool(found and is_complete(found))
    )


@functools.lru_cache(maxsize=MOST_TYPES)
def is_static(kind: bytes) -> bool:
    """Whether a type is that of a tensor of which every length is known."""
    return is_complete(TypeProto.FromString(kind))


@functools.lru_cache(maxsize=MOST_TYPES)
def is_clear(kind: bytes | None) -> bool:
    """Whether a type tells the element type and the rank."""
    return kind is not None and bool(element_types(TypeProto.FromString(kind))) and has_rank(kind)


@functools.lru_cache(maxsize=MOST_TYPES)
def has_rank(kind: bytes) -> bool:
    """Whether a type tells the rank, or is none that has one."""
    found = TypeProto.FromString(kind)
    return rank_of(found) is not None or not found.HasField("tensor_type")


@functools.lru_cache(maxsize=MOST_TYPES)
def may_count(kind: bytes | None) -> bool:
    """Whether inference may follow the numbers of a value: integers in a vector or a scalar."""
    found = TypeProto.FromString(kind or b"")
    tensor = found.tensor_type
    if not found.HasField("tensor_type") or tensor.elem_type in _FLOATS:
        return False
    return not tensor.HasField("shape") or len(tensor.shape.dim) < 2


def without_symbols(kind: TypeProto) -> bytes:
    """The bytes of a type without names of dimensions: two names never contradict each other."""
    return _without_symbols(kind.SerializeToString(deterministic=True))


@functools.lru_cache(maxsize=MOST_TYPES)
def _without_symbols(kind: bytes) -> bytes:
    plain = TypeProto.FromString(kind)
    inner = plain
    while (which := inner.WhichOneof("value")) in ("sequence_type", "optional_type", "map_type"):
        inner = (
            inner.map_type.value_type if which == "map_type" else getattr(inner, which).elem_type
        )
    if which in ("tensor_type", "sparse_tensor_type"):
        for dim in getattr(inner, which).shape.dim:
            dim.ClearField("dim_param")
    return plain.SerializeToString(deterministic=True)


def value_of(tensor: TensorProto, *, most: int = _MOST_OTHERS) -> bytes | None:
    """The bytes of a tensor that inference may read, without its name, unless it is long."""
    count = 1
    for dim in tensor.dims:
        count *= dim
    if count > (_MOST_INTEGERS if tensor.data_type in _INTEGERS else most):
        return None
    bare = TensorProto()
    bare.CopyFrom(tensor)
    bare.ClearField("name")
    bare.ClearField("doc_string")
    return bare.SerializeToString(deterministic=True)


def zeros_like(facet: Facet) -> bytes | None:
    """Zeros in place of a constant vector that is too long to be part of a class."""
    kind = TypeProto.FromString(facet.kind or b"").tensor_type
    element = ELEMENTS.get(kind.elem_type)
    if not facet.long or len(kind.shape.dim) != 1 or element is None or not element.numpy:
        return None
    length = kind.shape.dim[0].dim_value
    size = length * element.bits // 8
    if not 0 <= size <= wire.LIMIT:
        raise Unproven("a constant of no possible size")
    zeros = TensorProto(dims=[length], data_type=kind.elem_type, raw_data=bytes(size))
    return zeros.SerializeToString(deterministic=True)


def is_long(tensor: TensorProto, value: bytes | None) -> bool:
    """Whether a constant is a vector whose value no class holds."""
    return value is None and len(tensor.dims) == 1
