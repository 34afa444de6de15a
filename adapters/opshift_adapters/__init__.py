# SPDX-License-Identifier: Apache-2.0
"""Adapters and facts for the operators of ai.onnx, ai.onnx.ml and com.microsoft."""
