# SPDX-License-Identifier: Apache-2.0
"""Provides the sentences that say why a value is not a constant."""

from __future__ import annotations


def is_replaceable(name: str) -> str:
    """Returns why an initializer that is also a graph input is not a constant."""
    return f"{name!r} is an initializer that is also a graph input, so callers may replace it"


def is_input(name: str) -> str:
    """Returns why an input of a graph or a function is not a constant."""
    return f"{name!r} is an input"


def is_computed(name: str, node: str) -> str:
    """Returns why a value that a node computes is not a constant."""
    return f"{name!r} is computed by {node}"
