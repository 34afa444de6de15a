# SPDX-License-Identifier: Apache-2.0
"""Checks the default of an input, which is the initializer with the same name."""

from __future__ import annotations

from collections.abc import Iterator

from opshift.model.scope import sparse_type, tensor_type
from opshift.opsets.types import confirms, shown_type
from opshift.protos import GraphProto, TensorProto, TypeProto


def unfit(graph: GraphProto) -> Iterator[str]:
    """Yields a message for each input whose default has another type or shape."""
    sparse = {one.values.name: one for one in graph.sparse_initializer}
    has_defaults = graph.initializer or sparse
    inputs = {value.name: value.type for value in graph.input} if has_defaults else {}
    for tensor in graph.initializer:
        declared = inputs.get(tensor.name)
        if declared is not None and not _is_declared_as(tensor, declared):
            yield from _misfit(graph, tensor.name, declared, tensor_type(tensor))
    for name in sorted(inputs.keys() & sparse.keys()):
        yield from _misfit(graph, name, inputs[name], sparse_type(sparse[name]))


def _misfit(graph: GraphProto, name: str, declared: TypeProto, default: TypeProto) -> Iterator[str]:
    if declared.tensor_type.elem_type and not confirms(default, declared):
        types = f"{shown_type(declared)}, and its initializer is {shown_type(default)}"
        yield f"input {name!r} of graph {graph.name!r} is {types}"


def _is_declared_as(tensor: TensorProto, declared: TypeProto) -> bool:
    """Returns whether a declared type has the element type and the exact shape of a tensor."""
    kind = declared.tensor_type
    return kind.elem_type == tensor.data_type and list(tensor.dims) == [
        dim.dim_value for dim in kind.shape.dim
    ]
