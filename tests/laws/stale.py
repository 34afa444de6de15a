# SPDX-License-Identifier: Apache-2.0
"""Models with stale declarations: exported at fixed sizes, then made dynamic."""

from __future__ import annotations

import random

import numpy as np
import onnx
from onnx import ModelProto, TypeProto

GROWN = 5  # by so much a dimension is longer than the declarations of computed values say


def is_plain(value: onnx.ValueInfoProto) -> bool:
    """Whether a value is a tensor with a shape."""
    return value.type.HasField("tensor_type") and value.type.tensor_type.HasField("shape")


def made_stale(model: ModelProto, rng: random.Random) -> tuple[ModelProto, dict[str, list[int]]]:
    """The model with one dimension of its inputs made free, and the shapes to feed it with.

    Every input is read through an Identity, whose result keeps the declaration of the export.
    Equal lengths become one symbol, as they do when an exporter is told which axis is dynamic.
    """
    stale = ModelProto()
    stale.CopyFrom(model)
    graph = stale.graph
    constants = {tensor.name for tensor in graph.initializer}
    fed = [value for value in graph.input if value.name not in constants and is_plain(value)]
    lengths = {d.dim_value for v in fed for d in v.type.tensor_type.shape.dim if d.dim_value > 1}
    if not lengths:
        return stale, {}
    chosen = rng.choice(sorted(lengths))
    for value in fed:
        _read_through_identity(graph, value)
    exported = onnx.shape_inference.infer_shapes(stale, data_prop=True).graph.value_info
    names = {value.name for value in graph.value_info}
    graph.value_info.extend(v for v in exported if v.name not in names and is_plain(v))
    shapes = {}
    for value in fed:
        shapes[value.name] = _free(value.type, chosen)
    for value in graph.output:
        if is_plain(value):
            _free(value.type, chosen)
    return stale, shapes


def _read_through_identity(graph: onnx.GraphProto, value: onnx.ValueInfoProto) -> None:
    new = f"exported_{value.name}"
    for node in graph.node:
        for i, name in enumerate(node.input):
            if name == value.name:
                node.input[i] = new
    node = graph.node.add(op_type="Identity", input=[value.name], output=[new])
    nodes = [node, *[one for one in graph.node if one is not node]]
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)
    graph.value_info.add(name=new).type.CopyFrom(value.type)


def _free(kind: TypeProto, chosen: int) -> list[int]:
    shape = []
    for dim in kind.tensor_type.shape.dim:
        if dim.dim_value == chosen:
            dim.dim_param = "N"
            shape.append(chosen + GROWN)
        else:
            shape.append(dim.dim_value if dim.HasField("dim_value") else 2)
    return shape


def feeds(model: ModelProto, shapes: dict[str, list[int]], seed: int) -> dict[str, np.ndarray]:
    """Values for the inputs of such a model; small, as they may be indices or sizes."""
    rng, found = np.random.default_rng(seed), {}
    for value in model.graph.input:
        if value.name in shapes:
            dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
            values = rng.normal(size=shapes[value.name]) * 2
            if np.issubdtype(dtype, np.integer):
                values = rng.integers(0, 3, size=shapes[value.name])
            found[value.name] = np.asarray(values).astype(dtype)
    return found
