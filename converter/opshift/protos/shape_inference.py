# SPDX-License-Identifier: Apache-2.0
"""Calls the shape inference of onnx with messages or with their bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opshift.protos import (
    IR_VERSION,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    isolation,
    library,
    unknown_sizes,
)

InferenceError = library.shape_inference.InferenceError


def infer_shapes(
    model: ModelProto | bytes,
    *,
    check_type: bool = False,
    strict_mode: bool = False,
    data_prop: bool = False,
    risky: bool = False,
) -> ModelProto:
    """Returns a copy of a model with the types that inference finds.

    A `risky` model may crash the process, so inference can run in a child process.
    """
    data = unknown_sizes.unknown(model if isinstance(model, bytes) else model.SerializeToString())
    inferred = isolation.call("infer_shapes", data, check_type, strict_mode, data_prop, risky=risky)
    return ModelProto.FromString(inferred)


def infer_node_outputs(
    schema: Any,  # the type stubs of onnx lack the method
    node: NodeProto,
    types: Mapping[str, TypeProto],
    data: Mapping[str, TensorProto],
    imports: Mapping[str, int],
) -> dict[str, TypeProto]:
    """Returns the types that a schema infers for the outputs of one node."""
    shown = {
        name: unknown_sizes.unknown(kind.SerializeToString(), TypeProto)
        for name, kind in types.items()
    }
    values = {name: tensor.SerializeToString() for name, tensor in data.items()}
    node_bytes, versions = node.SerializeToString(), library.held_versions(imports)
    if isolation.uses_child():
        operator = schema.domain, schema.name, schema.since_version
        items = (list(mapping.items()) for mapping in (shown, values, versions))
        outputs = dict(isolation.call("infer_node_outputs", operator, node_bytes, *items))
    else:
        outputs = schema._infer_node_outputs(node_bytes, shown, values, {}, versions, IR_VERSION)
    return {name: TypeProto.FromString(kind) for name, kind in outputs.items()}
