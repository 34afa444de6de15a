# SPDX-License-Identifier: Apache-2.0
"""The messages of onnx: the same classes that `import onnx` gives, without the package onnx.

Everything else of onnx is in a module of this package: `checker`, `inference`, `defs` and `helper`
need no numpy; `whole` is the package itself. No other module imports onnx.
"""

from __future__ import annotations

from opshift.protos import loading

loading.load(loading.MESSAGES)

from onnx.onnx_ml_pb2 import (  # noqa: E402
    IR_VERSION,
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    OperatorSetIdProto,
    SparseTensorProto,
    StringStringEntryProto,
    TensorAnnotation,
    TensorProto,
    TensorShapeProto,
    TrainingInfoProto,
    TypeProto,
    ValueInfoProto,
)

__all__ = [
    "IR_VERSION",
    "AttributeProto",
    "FunctionProto",
    "GraphProto",
    "ModelProto",
    "NodeProto",
    "OperatorSetIdProto",
    "SparseTensorProto",
    "StringStringEntryProto",
    "TensorAnnotation",
    "TensorProto",
    "TensorShapeProto",
    "TrainingInfoProto",
    "TypeProto",
    "ValueInfoProto",
]
