"""Operators that generate values: constants, ranges and random numbers."""
