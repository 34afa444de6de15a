# SPDX-License-Identifier: Apache-2.0
"""Defines the values of a graph and the ONNX names of their types."""

from functools import cache
from typing import Any

import numpy as np

from opshift.model import arrays
from opshift.opsets.elements import ELEMENTS
from opshift.protos import TensorProto, TypeProto

Value = Any
"""A numpy array, a list (sequence), a dict (map), or None (absent, or an empty optional)."""


class OracleError(Exception):
    """The model uses an operator, attribute or type that its opset does not define."""


NARROW = frozenset(
    arrays.dtype_of(kind)
    for kind, element in ELEMENTS.items()
    if element.fraction is not None
    and element.bits < 32
    and kind in TensorProto.DataType.values()  # an older onnx lacks the newest types
)
"""Floating-point types below 32 bits, which compute in float32 and are rounded once."""


def wide(x: np.ndarray) -> np.ndarray:
    """Converts floats below 32 bits to float32; returns other arrays unchanged."""
    return x.astype(np.float32) if x.dtype in NARROW else x


def is_float(dtype: np.dtype) -> bool:
    """Returns whether a numpy type is a real floating-point type, including those of ml_dtypes."""
    return dtype in NARROW or dtype.kind == "f"


@cache
def dtype_of(elem_type: int) -> np.dtype:
    """Returns the numpy type for an ONNX element type; strings are objects."""
    if elem_type == TensorProto.STRING:
        return np.dtype(object)
    try:
        return arrays.dtype_of(elem_type)
    except KeyError:
        raise OracleError(f"{elem_type} is not an element type") from None


@cache
def elem_type_of(dtype: np.dtype) -> int:
    """Returns the ONNX element type for a numpy type."""
    if dtype.kind in "OUST":
        return TensorProto.STRING
    return arrays.from_array(np.empty(0, dtype)).data_type


@cache
def _tensor_name(dtype: np.dtype) -> str:
    return f"tensor({TensorProto.DataType.Name(elem_type_of(dtype)).lower()})"


def type_of(value: Value) -> str:
    """Returns the ONNX name of a value's type; "?" is the type in an empty container."""
    if isinstance(value, np.ndarray):
        return _tensor_name(value.dtype)
    if isinstance(value, list):
        return f"seq({type_of(value[0]) if value else '?'})"
    if isinstance(value, dict):
        key = type_of(np.asarray(next(iter(value)))) if value else "tensor(?)"
        item = next(iter(value.values())) if value else None
        item_type = "?" if item is None else type_of(np.asarray(item))
        return f"map({key[7:-1]},{item_type})"
    if value is None:
        return "optional(?)"
    raise OracleError(f"{type(value).__name__} is not a value of ONNX")


def declared(proto: TypeProto) -> str:
    """Returns the ONNX name of a declared type; "?" if the declaration leaves it open."""
    match proto.WhichOneof("value"):
        case "tensor_type":
            if not proto.tensor_type.elem_type:
                return "?"
            return _tensor_name(dtype_of(proto.tensor_type.elem_type))
        case "sparse_tensor_type":
            return _tensor_name(dtype_of(proto.sparse_tensor_type.elem_type))
        case "sequence_type":
            return f"seq({declared(proto.sequence_type.elem_type)})"
        case "optional_type":
            return f"optional({declared(proto.optional_type.elem_type)})"
        case "map_type":
            key = _tensor_name(dtype_of(proto.map_type.key_type))[7:-1]
            return f"map({key},{declared(proto.map_type.value_type)})"
    return "?"


@cache
def fits(actual: str, allowed: str) -> bool:
    """Returns whether a value of type `actual` fits the type expression `allowed`."""
    allowed = allowed.replace(" ", "")
    if actual == allowed or "?" in (actual, allowed):
        return True
    if allowed.startswith("optional("):
        return actual == "optional(?)" or fits(actual, allowed[9:-1])
    if allowed.startswith("seq(") and actual.startswith("seq("):
        return fits(actual[4:-1], allowed[4:-1])
    return False


def tensor(value: Any, dtype: np.dtype | None = None) -> np.ndarray:
    """Converts a value to an array of this package, in which strings are objects."""
    array = np.asarray(value, dtype=dtype)
    return array.astype(object) if array.dtype.kind in "UST" else array
