"""Operators that sample, resize or detect in images."""
