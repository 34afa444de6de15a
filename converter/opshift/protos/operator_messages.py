# SPDX-License-Identifier: Apache-2.0
"""The messages of onnx that describe an operator set; they bring the package onnx along."""

from __future__ import annotations

from onnx.onnx_operators_ml_pb2 import OperatorProto as OperatorProto
from onnx.onnx_operators_ml_pb2 import OperatorSetProto as OperatorSetProto
