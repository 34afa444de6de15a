# SPDX-License-Identifier: Apache-2.0
"""Converts tensors to numpy arrays and back, with the same result for every release of onnx.

onnx before 1.19 reads bfloat16 as float32, ignores its raw_data, and has its own numpy types for
the smaller numbers. opshift uses the types of ml_dtypes for bfloat16 and for all smaller numbers.
"""

from __future__ import annotations

import functools
import struct
import sys
from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

from opshift.errors import InvalidModel
from opshift.lazy import deferred
from opshift.lazy import numpy as np
from opshift.model.bytes import wire
from opshift.opsets.elements import ELEMENTS, Element, T
from opshift.opsets.types import LARGEST_RANK
from opshift.protos import TensorProto

if TYPE_CHECKING:
    import numpy.typing as npt
    from typing_extensions import TypeIs

    from opshift.protos import whole

    Array: TypeAlias = npt.NDArray[Any]
else:
    Array = Any
    whole = deferred("opshift.protos.whole")

_LISTED = {
    "int32_data": "i4", "int64_data": "i8", "uint64_data": "u8", "float_data": "f4",
    "double_data": "f8",
}  # fmt: skip


@functools.cache
def _plain() -> Mapping[np.dtype[Any], int]:
    return {
        np.dtype(element.numpy): number for number, element in ELEMENTS.items() if element.numpy
    }


@functools.cache
def _narrow() -> Mapping[int, np.dtype[Any]]:
    """Returns the numpy type, from ml_dtypes, of each element type that numpy itself lacks."""
    import ml_dtypes

    return {
        number: np.dtype(getattr(ml_dtypes, element.ml_dtypes))
        for number, element in ELEMENTS.items()
        if element.ml_dtypes
    }


@functools.cache
def _numbers() -> Mapping[np.dtype[Any], int]:
    return {kind: number for number, kind in _narrow().items()}


def dtype_of(elem_type: int) -> np.dtype[Any]:
    """Returns the numpy type for an element type; the type of objects for strings."""
    element = ELEMENTS.get(elem_type)
    if element is not None and element.numpy:
        return np.dtype(element.numpy)
    if element is not None and element.ml_dtypes:
        return _narrow()[elem_type]
    dtype: np.dtype[Any] = np.dtype(whole.helper.tensor_dtype_to_np_dtype(elem_type))
    return dtype


def is_array(value: object) -> TypeIs[Array]:
    """Returns whether a value is a numpy array, without an import of numpy."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def to_array(tensor: TensorProto) -> Array:
    """Returns the value of a tensor whose data is not external."""
    refuse_torn(tensor)
    kind = tensor.data_type
    raw = tensor.HasField("raw_data")
    if kind in (T.COMPLEX64, T.COMPLEX128) and not raw:
        part, pairs = (np.float32, tensor.float_data), (np.float64, tensor.double_data)
        dtype, parts = part if kind == T.COMPLEX64 else pairs
        return np.array(parts, dtype).view(dtype_of(kind)).reshape(tensor.dims)
    element = ELEMENTS[kind] if kind != T.STRING else None
    if element is not None and element.numpy:
        return _plain_array(tensor, element, raw=raw)
    if element is None or not element.ml_dtypes:
        return whole.numpy_helper.to_array(tensor)
    bits = element.bits
    stored = np.dtype("<u2" if bits == 16 else "u1")
    if raw:
        data = np.frombuffer(tensor.raw_data, stored)
    else:
        data = np.array(tensor.int32_data, np.int64).astype(stored)
    if bits == 4:
        data = np.stack([data & 15, data >> 4], axis=-1).reshape(-1)[: int(np.prod(tensor.dims))]
    return data.view(_narrow()[kind]).reshape(tensor.dims)


def _plain_array(tensor: TensorProto, element: Element, *, raw: bool) -> Array:
    dtype = np.dtype(element.numpy)
    if raw:
        return np.frombuffer(tensor.raw_data, dtype).reshape(tensor.dims)
    field = wire.PAYLOAD[element.field]
    if element.number == T.FLOAT16:  # float16 numbers are stored as integers with their bits
        return np.array(getattr(tensor, field), "<u2").view(dtype).reshape(tensor.dims)
    return np.array(getattr(tensor, field), _LISTED[field]).astype(dtype).reshape(tensor.dims)


def refuse_torn(tensor: TensorProto, called: str = "") -> None:
    """Raises InvalidModel unless shape, element type and payload of a tensor agree."""
    kind, count = tensor.data_type, prod(tensor.dims)
    called = called or f"tensor {tensor.name!r}"
    if len(tensor.dims) > LARGEST_RANK:
        raise InvalidModel(
            f"{called} has {len(tensor.dims)} dimensions; numpy and opshift read at most"
            f" {LARGEST_RANK}"
        )
    if kind != T.STRING and kind not in ELEMENTS:
        raise InvalidModel(f"{called} has the element type {kind}, which is unknown")
    if tensor.HasField("segment"):
        raise InvalidModel(f"{called} is one segment of a larger tensor; store the whole tensor")
    if kind == T.STRING:
        stored, needed, what = len(tensor.string_data), count, "strings"
    elif tensor.HasField("raw_data"):
        stored, needed, what = len(tensor.raw_data), wire.raw_size(kind, count), "bytes"
    else:
        field = wire.PAYLOAD[ELEMENTS[kind].field]
        stored, needed, what = len(getattr(tensor, field)), wire.entries(kind, count), "numbers"
    spare = stored > needed and what == "numbers" and ELEMENTS[kind].bits < 8  # onnx's parser
    require_fit(tensor.dims, needed if spare else stored, needed, what, called)


def require_fit(dims: Sequence[int], stored: int, needed: int, what: str, called: str) -> None:
    """Raises InvalidModel unless a payload has as many entries as the shape requires."""
    if stored != needed or min(dims, default=0) < 0:
        shape = f"of shape {list(dims)}" if len(dims) <= LARGEST_RANK else f"of rank {len(dims)}"
        size = str(needed) if abs(needed) < 2**63 else "more than any file can hold"
        raise InvalidModel(f"{called} {shape} holds {stored} {what}, not {size}")


def from_array(array: Array, name: str = "") -> TensorProto:
    """Makes a tensor with the element type of the array."""
    if (number := _plain().get(array.dtype)) is not None:
        data = array.astype(ELEMENTS[number].numpy, copy=False).tobytes()
        tensor = TensorProto(data_type=number, dims=array.shape, raw_data=data)
        if name:
            tensor.name = name
        return tensor
    kind = _numbers().get(array.dtype)
    if kind is None:
        return whole.numpy_helper.from_array(array, name)
    stored = np.ascontiguousarray(array).reshape(-1).view("u1")
    if ELEMENTS[kind].bits == 4:
        stored = np.append(stored & 15, np.zeros(stored.size % 2, stored.dtype))
        stored = stored[0::2] | stored[1::2] << 4
    return TensorProto(name=name, data_type=kind, dims=array.shape, raw_data=stored.tobytes())


def of_integers(value: object) -> TensorProto | None:
    """Makes an int64 tensor of an integer or a list of integers, without numpy; None for others."""
    numbers = value if isinstance(value, (list, tuple)) else (value,)
    if not all(type(number) is int and -(2**63) <= number < 2**63 for number in numbers):
        return None
    dims = () if numbers is not value else (len(numbers),)
    data = struct.pack(f"<{len(numbers)}q", *numbers)
    return TensorProto(data_type=T.INT64, dims=dims, raw_data=data)


def as_tensor(array: Array, elem_type: int) -> TensorProto:
    """Makes an unnamed tensor of an element type; limits 8-bit floats to the largest number."""
    element = ELEMENTS.get(elem_type)
    if element is not None and element.is_float8:
        array = np.clip(array.astype(np.float64), *element.finite)
    return from_array(array.astype(dtype_of(elem_type)))


def in_typed_field(tensor: TensorProto) -> TensorProto:
    """Moves the numbers of a float or int64 tensor from raw_data to the field of their type."""
    kind = tensor.data_type
    if not tensor.HasField("raw_data") or kind not in (T.FLOAT, T.INT64):
        return tensor
    typed = TensorProto(name=tensor.name, data_type=kind, dims=tensor.dims)
    field = typed.float_data if kind == T.FLOAT else typed.int64_data
    field.extend(to_array(tensor).reshape(-1).tolist())
    return typed


def dense(values: Array, indices: Array, dims: Sequence[int]) -> Array:
    """Expands a sparse tensor; indices are linear, or one row of coordinates for each value."""
    if not 0 <= prod(dims) * values.itemsize <= wire.LIMIT:
        raise InvalidModel(f"a sparse tensor of shape {list(dims)} is too large to be written out")
    full = np.zeros(tuple(dims), dtype=values.dtype)
    if indices.ndim == 1:
        full.reshape(-1)[indices] = values
    else:
        full[tuple(indices.T)] = values
    return full
