# SPDX-License-Identifier: Apache-2.0
"""Checks the default of an input, which is the initializer with the same name."""

from __future__ import annotations

from collections.abc import Iterator

from opshift.model.scope import tensor_type
from opshift.opsets.types import confirms, shown_type
from opshift.protos import GraphProto, TensorProto, TypeProto


def unfit(graph: GraphProto) -> Iterator[str]:
    """Yields a message for each input whose default has another type or shape."""
    inputs = {value.name: value for value in graph.input} if graph.initializer else {}
    for tensor in graph.initializer:
        value = inputs.get(tensor.name)
        if value is None or _is_declared_as(tensor, value.type):
            continue
        type_of_default = tensor_type(tensor)
        if value.type.tensor_type.elem_type and not confirms(type_of_default, value.type):
            kinds = (
                f"{shown_type(value.type)}, and its initializer is {shown_type(type_of_default)}"
            )
            yield f"input {value.name!r} of graph {graph.name!r} is {kinds}"


def _is_declared_as(tensor: TensorProto, declared: TypeProto) -> bool:
    """Returns whether a declared type has the element type and the exact shape of a tensor."""
    kind = declared.tensor_type
    return kind.elem_type == tensor.data_type and list(tensor.dims) == [
        dim.dim_value for dim in kind.shape.dim
    ]
