# SPDX-License-Identifier: Apache-2.0
"""Compares requested sizes with the inputs of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opshift.errors import BadTarget
from opshift.opsets.types import dims_of, rank_of
from opshift.protos import GraphProto, TensorShapeProto, TypeProto, ValueInfoProto
from opshift.text import suggestion

UNNAMED = ("?",)  # what some exporters write for an unnamed dimension


def free_inputs(graph: GraphProto) -> dict[str, ValueInfoProto]:
    """Returns the inputs that have no default value, by name."""
    fed = {tensor.name for tensor in graph.initializer}
    fed |= {sparse.values.name for sparse in graph.sparse_initializer}
    return {value.name: value for value in graph.input if value.name not in fed}


def dim_names(graph: GraphProto) -> list[str]:
    """Returns the names of symbolic dimensions of the inputs, without duplicates."""
    shapes = (value.type.tensor_type.shape for value in free_inputs(graph).values())
    return list(
        dict.fromkeys(dim.dim_param for shape in shapes for dim in shape.dim if dim.dim_param)
    )


def wanted_sizes(
    graph: GraphProto, shape: Mapping[str, Sequence[int]], dim: Mapping[str, int]
) -> dict[str, int]:
    """Returns the sizes of named dimensions; raises BadTarget if the model contradicts them."""
    inputs, names = free_inputs(graph), dim_names(graph)
    for name in dim:
        if name not in names:
            raise BadTarget(f"no input has a dimension {name!r}{_known('dimensions', name, names)}")
    origins = {name: f"dimension {name!r}" for name in dim}
    sizes = dict(dim)
    for name, requested in shape.items():
        if any(name == value.name for value in graph.input) and name not in inputs:
            raise BadTarget(
                f"the input {name!r} has a default value, whose shape cannot change; leave it out"
            )
        if name not in inputs:
            raise BadTarget(
                f"the model has no input {name!r} to give a shape to"
                f"{_known('inputs', name, list(inputs))}"
            )
        _require_fit(name, inputs[name].type, requested)
        if rank_of(inputs[name].type) is None:
            continue
        for axis, (fixed, size) in enumerate(
            zip(dims_of(inputs[name].type), requested, strict=True)
        ):
            if not isinstance(fixed, str) or fixed in UNNAMED:
                continue
            place = f"dimension {axis} of {name!r}"
            if sizes.setdefault(fixed, size) != size:
                raise BadTarget(
                    f"{place} is {fixed!r} and would be {size}, but {origins[fixed]} makes it"
                    f" {sizes[fixed]}; give all dimensions of one name the same size"
                )
            origins.setdefault(fixed, place)
    return sizes


def _require_fit(name: str, declared: TypeProto, sizes: Sequence[int]) -> None:
    """Raises BadTarget if an input cannot have a shape."""
    if declared.WhichOneof("value") not in ("tensor_type", None):
        raise BadTarget(f"the input {name!r} is not a tensor, so it has no shape; leave it out")
    if (rank := rank_of(declared)) is None:
        return
    if rank != len(sizes):
        raise BadTarget(
            f"the input {name!r} has {rank} dimensions, and the shape {shown(sizes)} has"
            f" {len(sizes)}; give a size for each dimension"
        )
    for axis, (fixed, size) in enumerate(zip(dims_of(declared), sizes, strict=True)):
        if isinstance(fixed, int) and fixed != size:
            raise BadTarget(
                f"dimension {axis} of the input {name!r} is {fixed} in the model and {size} in the"
                f" shape {shown(sizes)}; a fixed dimension cannot change"
            )


def give_shape(declared: TypeProto, sizes: Sequence[int]) -> None:
    """Sets the shape of an input's type; dimensions keep their denotations."""
    shape = declared.tensor_type.shape
    shape.SetInParent()
    if len(shape.dim) != len(sizes):
        shape.dim.extend([TensorShapeProto.Dimension()] * len(sizes))
    for dim, size in zip(shape.dim, sizes, strict=True):
        dim.dim_value = size


def shown(sizes: Sequence[int | str | None]) -> str:
    """Returns sizes as the option writes them, such as `1,3,224,224`; `()` for a scalar."""
    return ",".join("?" if size is None else str(size) for size in sizes) or "()"


def _known(things: str, name: str, existing: Sequence[str]) -> str:
    """Returns the end of a message, with the names that the model has."""
    near = suggestion(name, existing)
    listed = ", ".join(map(repr, existing[:8])) or "none"
    return near or f"; the model has these {things}: {listed}"
