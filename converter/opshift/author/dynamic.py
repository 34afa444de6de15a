# SPDX-License-Identifier: Apache-2.0
"""The words for the reason why a value is not a constant."""

from __future__ import annotations


def is_replaceable(name: str) -> str:
    """The reason why an initializer with a graph input is not a constant."""
    return f"{name!r} is an initializer that is also a graph input, so callers may replace it"


def is_input(name: str) -> str:
    """Of an input of a graph or of a function."""
    return f"{name!r} is an input"


def is_computed(name: str, node: str) -> str:
    """Of a value that a node computes."""
    return f"{name!r} is computed by {node}"
