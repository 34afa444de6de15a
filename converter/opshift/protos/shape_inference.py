# SPDX-License-Identifier: Apache-2.0
"""The inference of onnx, for messages and for their bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opshift.protos import (
    IR_VERSION,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    library,
    negative_sizes,
)

InferenceError = library.shape_inference.InferenceError


def infer_shapes(
    model: ModelProto | bytes,
    *,
    check_type: bool = False,
    strict_mode: bool = False,
    data_prop: bool = False,
) -> ModelProto:
    """A copy of a model with the types that inference finds."""
    data = negative_sizes.unknown(model if isinstance(model, bytes) else model.SerializeToString())
    return ModelProto.FromString(
        library.shape_inference.infer_shapes(data, check_type, strict_mode, data_prop)
    )


def _legal(kind: TypeProto) -> TypeProto:
    """A type without negative sizes, for which some rules of onnx end the process."""
    if all(dim.dim_value >= 0 for dim in kind.tensor_type.shape.dim):
        return kind
    legal = TypeProto()
    legal.CopyFrom(kind)
    for dim in legal.tensor_type.shape.dim:
        if dim.dim_value < 0:
            dim.ClearField("dim_value")
    return legal


def infer_node_outputs(
    schema: Any,  # the stubs of onnx do not know its method
    node: NodeProto,
    types: Mapping[str, TypeProto],
    data: Mapping[str, TensorProto],
    imports: Mapping[str, int],
) -> dict[str, TypeProto]:
    """The types that a schema infers for the outputs of one node."""
    found = schema._infer_node_outputs(
        node.SerializeToString(),
        {name: _legal(kind).SerializeToString() for name, kind in types.items()},
        {name: tensor.SerializeToString() for name, tensor in data.items()},
        {},
        dict(imports),
        IR_VERSION,
    )
    return {name: TypeProto.FromString(kind) for name, kind in found.items()}
