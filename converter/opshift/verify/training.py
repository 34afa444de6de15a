# SPDX-License-Identifier: Apache-2.0
"""Turns each training graph of a model into a model that an engine can run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opshift.model.arrays import from_array
from opshift.protos import GraphProto, ModelProto

FIELDS = ("input", "initializer", "sparse_initializer", "node", "value_info")
BINDINGS = {"initialization": "initialization_binding", "algorithm": "update_binding"}


def label(number: int, name: str) -> str:
    """Returns the label of a training graph in the report of a verification."""
    return f"training_info[{number}].{name}"


def part(model: ModelProto, number: int, name: str) -> ModelProto | None:
    """Returns a training graph (initialization or algorithm) as a model; None if it is empty."""
    if number >= len(model.training_info):
        return None
    graph: GraphProto = getattr(model.training_info[number], name)
    if not graph.output or not graph.node:
        return None
    # An algorithm continues the graph of the model, so both run together.
    main = model.graph if name == "algorithm" else GraphProto()
    return _alone(model, main, graph)


def _alone(model: ModelProto, main: GraphProto, graph: GraphProto) -> ModelProto:
    alone = ModelProto(
        ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions
    )
    alone.graph.name = graph.name or "training"
    for part in (main, graph):
        for field in FIELDS:
            getattr(alone.graph, field).extend(getattr(part, field))
    alone.graph.output.extend(graph.output)
    return alone


def bindings(model: ModelProto, number: int, name: str) -> dict[str, str]:
    """Returns the initializers that a training graph sets, each with the output that it takes."""
    if number >= len(model.training_info):
        return {}
    entries = getattr(model.training_info[number], BINDINGS[name])
    return {entry.key: entry.value for entry in entries}


def with_values(model: ModelProto, values: Mapping[str, Any]) -> ModelProto:
    """Returns a copy of a model whose initializers have the values that training has set."""
    copy = ModelProto()
    copy.CopyFrom(model)
    graphs = [copy.graph, *(info.algorithm for info in copy.training_info)]
    for graph in graphs:
        for tensor in graph.initializer:
            if tensor.name in values:
                tensor.CopyFrom(from_array(values[tensor.name], tensor.name))
    return copy


def without(model: ModelProto) -> ModelProto:
    """Returns a copy of a model without its training information."""
    copy = ModelProto()
    copy.CopyFrom(model)
    copy.ClearField("training_info")
    return copy
