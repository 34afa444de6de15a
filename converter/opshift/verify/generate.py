# SPDX-License-Identifier: Apache-2.0
"""Generates inputs from the signature of a model and from the operators that read the inputs."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from opshift.author import safe_inference
from opshift.author.registry import Registry
from opshift.model import weights
from opshift.opsets.types import Dims, dims_of
from opshift.protos import ModelProto, TypeProto, ValueInfoProto
from opshift.verify import hints
from opshift.verify.cases import InputSet
from opshift.verify.hints import Hint
from opshift.verify.oracle import inputs as plain
from opshift.verify.oracle.values import dtype_of, is_float

Sizes = dict[str, int]
Array = np.ndarray[Any, np.dtype[Any]]

MOST_ELEMENTS = sys.maxsize // 16  # numpy overflows above this number; 16 bytes are the widest type

FIRST: tuple[tuple[int, ...], ...] = ((2, 3, 4), (3, 4, 5))
"""Sizes of the dynamic axes in the first and the second set of inputs; all axes differ in size."""
SECOND: tuple[tuple[int, ...], ...] = ((2,), (3,), (1,))
"""Sizes for models whose dynamic axes must be equal, although their names differ."""
LARGE: tuple[tuple[int, ...], ...] = ((2, 64, 96), (1, 224, 224))
"""Sizes for models of images."""

ATTEMPTS = ((FIRST, False), (SECOND, False), (LARGE, False), (FIRST + SECOND, True))
"""Sizes, and whether numbers are calm, for each attempt to find two input sets with results."""

VALUES: Mapping[str, Callable[[Array], Any]] = {
    "positive": lambda x: np.abs(x) + 0.25,
    "nonzero": lambda x: np.where(x < 0, x - 1, x + 1),
    "unit": lambda x: np.tanh(x) * 0.9,
    "share": lambda x: 0.5 + np.tanh(x) * 0.4,
    "above one": lambda x: np.abs(x) + 1.25,
    "low": lambda x: np.full_like(x, -1),
    "high": lambda x: np.full_like(x, 1),
    "zero": np.zeros_like,
    "false": np.zeros_like,
    "one": np.ones_like,
    "true": np.ones_like,
    "two": lambda x: np.full_like(x, 2),
    "three": lambda x: np.full_like(x, 3),
    "far": lambda x: np.full_like(x, 2**30),
    "places": lambda x: np.arange(x.size).reshape(x.shape),
    "shape": lambda x: np.array([-1] + [1] * (x.size - 1))[: x.size].reshape(x.shape),
    "zero to two": lambda x: np.abs(np.round(x)) % 3,
    "mask": lambda x: (x > -1).astype(x.dtype),
    "calm": lambda x: 0.5 + np.tanh(x) * 0.4,
}


def cases(
    model: ModelProto,
    seed: int,
    ladder: Sequence[Sequence[int]],
    adapters: Registry,
    *,
    calm: bool = False,
) -> Iterator[InputSet]:
    """Yields a set of inputs for each choice of sizes; with `calm`, numbers are near 0.5."""
    fed = {tensor.name for tensor in model.graph.initializer}
    fed |= {tensor.values.name for tensor in model.graph.sparse_initializer}
    free = [info for info in model.graph.input if info.name not in fed]
    hints_by_name = hints.hints(model)
    shaped = any(h.data for group in hints_by_name.values() for h in group)
    shapes = _shapes(model, adapters) if shaped else {}
    for number, choice in enumerate(ladder):
        sizes: Sizes = {}
        for info in free:
            _shape(info.type, sizes, choice)
        rng = np.random.default_rng([seed, number])
        values = {}
        for place, info in enumerate(free):
            kinds = hints_by_name.get(info.name, ())
            kind = kinds[0].kind if kinds else "calm" if calm else ""
            bound = min((_bound(shapes, h, sizes) for h in kinds if h.kind == kind), default=1)
            value = _value(info.type, kind, bound, rng, sizes)
            if not kind and isinstance(value, np.ndarray) and value.dtype == bool:
                value = _flag(value, seed, place, number)
            values[info.name] = value
        shown = "".join(f", {name or '?'}={size}" for name, size in sizes.items())
        manner = ", calm" if calm else ""
        yield InputSet(f"generated, seed {seed}.{number}{manner}{shown}", values)


def with_sizes_of(model: ModelProto, other: ModelProto) -> ModelProto:
    """Returns a model whose unknown input sizes are replaced by the sizes of another model.

    The generated inputs must fit both models, and the other model may have fixed sizes.
    """
    narrower = {
        info.name: info.type
        for info in other.graph.input
        if any(dim.HasField("dim_value") for dim in info.type.tensor_type.shape.dim)
    }
    at = [i for i, info in enumerate(model.graph.input) if _is_wider(info, narrower)]
    if not at:
        return model
    sized = ModelProto()
    sized.CopyFrom(model)
    for i in at:
        shape = sized.graph.input[i].type.tensor_type.shape
        sizes = narrower[sized.graph.input[i].name].tensor_type.shape
        if not shape.dim:
            shape.CopyFrom(sizes)
        for dim, size in zip(shape.dim, sizes.dim, strict=True):
            if not dim.HasField("dim_value") and size.HasField("dim_value"):
                dim.dim_value = size.dim_value
    return sized


def _is_wider(info: ValueInfoProto, narrower: Mapping[str, TypeProto]) -> bool:
    """Returns whether the other model fixes a size of this input that is dynamic in this model."""
    if info.name not in narrower:
        return False
    shape, sizes = info.type.tensor_type.shape, narrower[info.name].tensor_type.shape
    if not info.type.tensor_type.HasField("shape"):
        return True
    return len(shape.dim) == len(sizes.dim) and any(
        size.HasField("dim_value") and not dim.HasField("dim_value")
        for dim, size in zip(shape.dim, sizes.dim, strict=True)
    )


def _value(
    declared: TypeProto, kind: str, bound: int, rng: np.random.Generator, sizes: Sizes
) -> Any:
    if declared.WhichOneof("value") != "tensor_type":
        return plain.make_value(declared, rng, sizes)
    shape = _shape(declared, sizes, (1,))
    if not declared.tensor_type.HasField("shape"):
        shape = (2, 3)
    elem_type = declared.tensor_type.elem_type
    dtype = dtype_of(elem_type)
    count = math.prod(shape)
    if count > MOST_ELEMENTS:
        raise MemoryError(f"an input of the shape {list(shape)} has {count} elements")
    if kind == "index":
        return rng.integers(0, bound, shape).astype(dtype)
    if kind in (hints.KEYS, hints.LAST_KEY):
        return np.full(shape, bound - (kind == hints.LAST_KEY), dtype)
    if not kind or dtype.kind == "O":
        return plain.make_elements(elem_type, count, rng).reshape(shape)
    numbers = rng.normal(0, 2, shape)
    values = np.asarray(VALUES[kind](numbers))
    # numpy's rint turns an array without dimensions into a scalar.
    return np.asarray(values if is_float(dtype) else np.rint(values)).astype(dtype)


def _flag(value: Array, seed: int, place: int, number: int) -> Array:
    """Alternates a boolean of one element between input sets, to run both branches of an If."""
    if value.size != 1:
        return value
    first = np.random.default_rng([seed, place]).integers(2)
    return np.full_like(value, (first + number) % 2 == 1)


def _shape(kind: TypeProto, sizes: Sizes, choice: Sequence[int]) -> tuple[int, ...]:
    shape = []
    for size in dims_of(kind):
        if isinstance(size, int):
            shape.append(size)
        else:
            place = len(sizes) % len(choice)
            shape.append(sizes.setdefault(size or "", choice[place]))
    return tuple(shape)


def _bound(shapes: Mapping[str, Dims], hint: Hint, sizes: Sizes) -> int:
    """Returns the limit of generated indices, or the number of attention keys; 1 if unknown."""
    shape = _sized(shapes.get(hint.data, ()), sizes)
    if hint.kind in (hints.KEYS, hints.LAST_KEY):
        past = _sized(shapes.get(hint.past, ()), sizes)
        return sum((*shape[1:2], *past[2:3])) or 1
    if hint.axis is None:
        return max(min(shape, default=1), 1)
    return max(shape[hint.axis], 1) if -len(shape) <= hint.axis < len(shape) else 1


def _sized(dims: Dims, sizes: Sizes) -> list[int]:
    return [dim if isinstance(dim, int) else sizes.get(dim or "", 1) for dim in dims]


def _shapes(model: ModelProto, adapters: Registry) -> dict[str, Dims]:
    """Returns the shapes of values that are declared, or that inference finds without weights."""
    view = weights.checkable(weights.carve_model(model)[0])
    try:
        graph = safe_inference.infer(view, adapters).graph
    except safe_inference.COMPLAINTS:  # a conversion reports the errors of inference
        graph = model.graph
    declared = {
        info.name: dims_of(info.type)
        for info in itertools.chain(graph.input, graph.value_info, graph.output)
        if info.type.tensor_type.HasField("shape")
    }
    return {**declared, **{tensor.name: tuple(tensor.dims) for tensor in graph.initializer}}


def is_dynamic(model: ModelProto) -> bool:
    """Returns whether an input has a dimension without a fixed size."""
    dims = (size for info in model.graph.input for size in dims_of(info.type))
    return not all(isinstance(size, int) for size in dims)
