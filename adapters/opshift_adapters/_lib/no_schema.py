# SPDX-License-Identifier: Apache-2.0
"""Nodes that no schema describes at their version."""

from opshift.adapter import Node, Refusal, Value, Why


def first_input(node: Node) -> Value:
    """The first input of a node whose inputs have no names."""
    found = node.inputs[0] if node.inputs else None
    if found is None:
        raise Refusal(Why.AMBIGUOUS, f"{node.op} without input")
    return found


def number(node: Node, name: str, default: float) -> float:
    """An attribute that no schema describes."""
    return default if node.attr(name) is None else node.float(name)
