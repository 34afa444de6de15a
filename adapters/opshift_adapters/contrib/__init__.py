"""Contrib operators of onnxruntime, domain com.microsoft, written in ai.onnx."""
