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
        {
            name: negative_sizes.unknown(kind.SerializeToString(), TypeProto)
            for name, kind in types.items()
        },
        {name: tensor.SerializeToString() for name, tensor in data.items()},
        {},
        library.held_versions(imports),
        IR_VERSION,
    )
    return {name: TypeProto.FromString(kind) for name, kind in found.items()}
