# SPDX-License-Identifier: Apache-2.0
"""The name of a domain: the default domain is the empty string."""

from __future__ import annotations


def normal(domain: str) -> str:
    """The domain, with `ai.onnx` written as the empty string."""
    return "" if domain == "ai.onnx" else domain
