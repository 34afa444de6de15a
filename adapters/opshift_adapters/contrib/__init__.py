# SPDX-License-Identifier: Apache-2.0
"""Contrib operators of onnxruntime, domain com.microsoft, written in ai.onnx."""
