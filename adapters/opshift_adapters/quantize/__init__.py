"""Operators on quantized numbers."""
