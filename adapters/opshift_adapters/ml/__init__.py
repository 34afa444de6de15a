"""Operators of ai.onnx.ml."""
