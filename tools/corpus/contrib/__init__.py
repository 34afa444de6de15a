# SPDX-License-Identifier: Apache-2.0
"""Models that onnxruntime's tools have rewritten come back to plain ONNX."""
