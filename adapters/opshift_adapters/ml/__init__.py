# SPDX-License-Identifier: Apache-2.0
"""Operators of ai.onnx.ml."""
