# SPDX-License-Identifier: Apache-2.0
"""Generates deterministic inputs for a model from the declarations of its graph."""

from typing import Any

import numpy as np

from opshift.opsets.types import dims_of
from opshift.protos import ModelProto, TensorProto, TypeProto
from opshift.verify.oracle.values import Value, dtype_of, is_float, tensor

_SIZES = (2, 3, 4)
_WORDS = ("", "a", "b", "Ab", "z y")


def make_inputs(
    model: ModelProto, seed: int = 0, overrides: dict[str, Any] | None = None
) -> dict[str, Value]:
    """Returns a value for every graph input without an initializer, and for every override."""
    rng = np.random.default_rng(seed)
    overrides = overrides or {}
    named = {tensor.name for tensor in model.graph.initializer}
    named |= {sparse.values.name for sparse in model.graph.sparse_initializer}
    sizes: dict[str, int] = {}
    values: dict[str, Value] = {}
    for info in model.graph.input:
        if info.name in overrides:
            values[info.name] = _given(info.type, overrides[info.name])
        elif info.name not in named:
            values[info.name] = make_value(info.type, rng, sizes)
    return values


def _given(proto: TypeProto, value: Any) -> Value:
    """Converts an override to the element type that the graph declares."""
    if proto.WhichOneof("value") == "tensor_type" and proto.tensor_type.elem_type:
        return tensor(value, dtype_of(proto.tensor_type.elem_type))
    if proto.WhichOneof("value") == "sequence_type":
        return [_given(proto.sequence_type.elem_type, item) for item in value]
    if proto.WhichOneof("value") == "optional_type" and value is not None:
        return _given(proto.optional_type.elem_type, value)
    return value


def make_value(proto: TypeProto, rng: np.random.Generator, sizes: dict[str, int]) -> Value:
    match proto.WhichOneof("value"):
        case "sequence_type":
            return [make_value(proto.sequence_type.elem_type, rng, sizes) for _ in range(3)]
        case "optional_type":
            return make_value(proto.optional_type.elem_type, rng, sizes)
        case "map_type":
            value = make_elements(proto.map_type.value_type.tensor_type.elem_type, 3, rng)
            text = proto.map_type.key_type == TensorProto.STRING
            return dict(zip("abc" if text else range(3), value.tolist(), strict=True))
    shape = []
    for size in dims_of(proto):
        if isinstance(size, int):
            shape.append(size)
        else:
            shape.append(sizes.setdefault(size or "", _SIZES[len(sizes) % len(_SIZES)]))
    count = int(np.prod(shape, dtype=int))
    return make_elements(proto.tensor_type.elem_type, count, rng).reshape(shape)


def make_elements(elem_type: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Returns floats of both signs with some exact halves, small integers, booleans, or words."""
    dtype = dtype_of(elem_type)
    if dtype.kind == "O":
        return np.array([_WORDS[i] for i in rng.integers(0, len(_WORDS), count)], dtype=object)
    if dtype.kind == "b":
        return rng.integers(0, 2, count).astype(bool)
    numbers = rng.normal(0, 2, count)
    numbers = np.where(np.arange(count) % 3 == 2, np.round(numbers * 2) / 2, numbers)
    if dtype.kind == "c":
        return (numbers + 1j * rng.normal(0, 2, count)).astype(dtype)
    if is_float(dtype):
        return numbers.astype(dtype)
    name = dtype.name
    low, high = (0, 6) if name.startswith("u") else (-5, 6)
    if name.endswith("int2"):
        low, high = max(low, -2), (4 if low == 0 else 2)
    return rng.integers(low, high, count).astype(dtype)
