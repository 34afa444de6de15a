# SPDX-License-Identifier: Apache-2.0
"""Provides the messages of onnx for operator sets; this imports the package onnx."""

from __future__ import annotations

from onnx.onnx_operators_ml_pb2 import OperatorProto as OperatorProto
from onnx.onnx_operators_ml_pb2 import OperatorSetProto as OperatorSetProto
