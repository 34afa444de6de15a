# SPDX-License-Identifier: Apache-2.0
"""Derives models and inputs from an example in which one dimension is 0."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from opshift.model.arrays import from_array, to_array
from opshift.model.walk import graphs_in
from opshift.opsets.types import dims_of
from opshift.protos import ModelProto, TypeProto, ValueInfoProto

MOST = 24
"""The most dimensions of an example that are tested."""
Place = tuple[str, int]
"""An axis of an input or an initializer."""


def empties(
    model: ModelProto, values: Mapping[str, Any]
) -> Iterator[tuple[str, ModelProto, dict[str, Any]]]:
    """Sets each dimension to 0, together with all dimensions of equal size.

    The model declares the size 0, or a symbolic size that the inputs determine.
    """
    sizes: dict[Place, object] = dict(list(_sizes(model))[:MOST])
    alike = [
        frozenset(place for place, other in sizes.items() if other == size)
        for size in sizes.values()
    ]
    single = len({name for name, _ in sizes}) == 1
    alone = [frozenset((place,)) for place in sizes] if single else []
    for places in dict.fromkeys(alike + alone):
        inputs = {name: _cut(name, value, places) for name, value in values.items()}
        shown = " ".join(f"{name}.{axis}" for name, axis in sorted(places))
        for declared in (False, True):
            manner = "declared" if declared else "computed"
            yield f"{shown} {manner}", _emptied(model, places, declared=declared), inputs


def _sizes(model: ModelProto) -> Iterator[tuple[Place, object]]:
    """Yields the sizes of the inputs and initializers, each a number or a symbolic name."""
    fed = {tensor.name for tensor in model.graph.initializer}
    for info in model.graph.input:
        if info.name not in fed and info.type.HasField("tensor_type"):
            for axis, size in enumerate(dims_of(info.type)):
                yield (info.name, axis), size or f"{info.name}.{axis}"
    for tensor in model.graph.initializer:
        for axis, length in enumerate(tensor.dims):
            yield (tensor.name, axis), length


def _cut(name: str, value: Any, places: frozenset[Place]) -> Any:
    """Returns an array without elements along these axes."""
    if isinstance(value, np.ndarray):
        for axis in range(value.ndim):
            if (name, axis) in places:
                value = np.take(value, np.zeros(0, int), axis)
    return value


def _emptied(model: ModelProto, places: frozenset[Place], *, declared: bool) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(model)
    del copy.graph.value_info[:]
    for info in copy.graph.input:
        for axis, dim in enumerate(info.type.tensor_type.shape.dim):
            if (info.name, axis) in places:
                dim.Clear()
                if declared:
                    dim.dim_value = 0
                else:
                    dim.dim_param = f"{info.name}_{axis}"
    for tensor in copy.graph.initializer:
        if any((tensor.name, axis) in places for axis in range(len(tensor.dims))):
            tensor.CopyFrom(from_array(_cut(tensor.name, to_array(tensor), places), tensor.name))
    for graph in graphs_in(copy.graph):
        for info in graph.output:
            _forget_sizes(info, info.type)
    return copy


def _forget_sizes(info: ValueInfoProto, kind: TypeProto) -> None:
    for axis, dim in enumerate(kind.tensor_type.shape.dim):
        dim.Clear()
        dim.dim_param = f"{info.name}_{axis}"
