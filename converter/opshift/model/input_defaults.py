# SPDX-License-Identifier: Apache-2.0
"""The default of an input: the initializer that has its name."""

from __future__ import annotations

from collections.abc import Iterator

from opshift.model.scope import tensor_type
from opshift.opsets.types import confirms, shown_type
from opshift.protos import GraphProto


def unfit(graph: GraphProto) -> Iterator[str]:
    """The inputs of a graph whose default has another type or shape."""
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    for value in graph.input:
        if value.name not in tensors or not value.type.tensor_type.elem_type:
            continue
        found = tensor_type(tensors[value.name])
        if not confirms(found, value.type):
            told = f"is {shown_type(value.type)}, and its initializer is {shown_type(found)}"
            yield f"input {value.name!r} of graph {graph.name!r} {told}"
