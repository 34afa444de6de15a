# SPDX-License-Identifier: Apache-2.0
"""Normalizes the name of a domain: the domain ai.onnx is the empty string."""

from __future__ import annotations


def normal(domain: str) -> str:
    """Returns the domain, with `ai.onnx` as the empty string."""
    return "" if domain == "ai.onnx" else domain
