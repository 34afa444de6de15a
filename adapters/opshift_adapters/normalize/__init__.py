"""Normalization, softmax and losses."""
