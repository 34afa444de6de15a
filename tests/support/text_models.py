# SPDX-License-Identifier: Apache-2.0
"""Models written as text, and the operators of a model as text."""

from __future__ import annotations

from onnx import ModelProto
from opshift.testing.model_text import parse_model


def model(text: str, opset: int = 12, ir: int = 8, more: str = "") -> ModelProto:
    """Parses a model `(inputs) => (outputs) { nodes }`, followed by its functions."""
    return parse_model(f'<ir_version: {ir}, opset_import: ["" : {opset}{more}]> g {text}')


def ops(proto: ModelProto) -> str:
    return " ".join(node.op_type for node in proto.graph.node)
