# SPDX-License-Identifier: Apache-2.0
"""Provides the message classes of onnx without importing the package onnx.

The classes are identical to those of `import onnx`. The modules of this package provide the rest of
onnx: `checker`, `inference`, `defs` and `helper` do not import numpy; `whole` is the whole package.
No other module of opshift imports onnx.
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
