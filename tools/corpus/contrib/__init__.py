"""Models that onnxruntime's tools have rewritten come back to plain ONNX."""
