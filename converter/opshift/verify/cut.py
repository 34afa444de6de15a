# SPDX-License-Identifier: Apache-2.0
"""Extracts the nodes that compute one value from known values, as a separate model."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from opshift.model import cone, walk
from opshift.protos import ModelProto, NodeProto, TypeProto, ValueInfoProto
from opshift.protos.whole import helper
from opshift.verify import cases
from opshift.verify.oracle.values import elem_type_of
from opshift.verify.subject import save

Values = Mapping[str, Any]


def piece(
    model: ModelProto, nodes: list[NodeProto], inputs: Values, name: str, value: Any
) -> ModelProto:
    """Returns a model of `nodes`, whose only output is the value `name`."""
    small = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    small.functions.extend(cone.called(model, nodes))
    small.graph.name = "reduced"
    small.graph.node.extend(nodes)
    reads = {name for node in nodes for name in walk.reads(node) if name} - inputs.keys()
    small.graph.initializer.extend(t for t in model.graph.initializer if t.name in reads)
    sparse = model.graph.sparse_initializer
    small.graph.sparse_initializer.extend(t for t in sparse if t.values.name in reads)
    if model.ir_version < 4:
        small.graph.input.extend(i for i in model.graph.input if i.name in reads)
    declared = {info.name: info for info in (*model.graph.input, *model.graph.value_info)}
    small.graph.input.extend(
        ValueInfoProto(name=name_of_input, type=_type(array) or declared[name_of_input].type)
        for name_of_input, array in inputs.items()
    )
    declarations = [i for i in (*model.graph.output, *model.graph.value_info) if i.name == name]
    small.graph.output.extend(declarations[:1] or [ValueInfoProto(name=name, type=_type(value))])
    return small


def _type(value: Any) -> TypeProto | None:
    """Returns the type of a tensor or a sequence; None for an empty list or another value."""
    if isinstance(value, np.ndarray):
        return helper.make_tensor_type_proto(elem_type_of(value.dtype), value.shape)
    if isinstance(value, list) and value and (inner := _type(value[0])):
        inner.tensor_type.ClearField("shape")
        return helper.make_sequence_type_proto(inner)
    return None


def saved(folder: Path, small: tuple[ModelProto, ModelProto], inputs: Values) -> str:
    """Writes both extracted models and their inputs; returns arguments for `opshift verify`."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / "a.onnx", folder / "b.onnx"]
    for model, path in zip(small, paths, strict=True):
        save(model, path)
    data = cases.written(folder, small[0], inputs)
    return shlex.join(map(str, (*paths, "--inputs", data)))
