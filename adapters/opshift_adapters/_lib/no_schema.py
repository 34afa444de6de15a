# SPDX-License-Identifier: Apache-2.0
"""Access to nodes whose operator has no schema at their opset."""

from typing import Any

from opshift.adapter import Node, Refusal, Value, Why


def attribute(node: Node, name: str, default: Any) -> Any:
    """An attribute, or the default that the caller gives."""
    found = node.attr(name)
    if found is None:
        return default
    return found.decode() if isinstance(found, bytes) else found


def needed(node: Node, position: int) -> Value:
    """The input at a position; refuses the node if the input is absent."""
    found = node.input_at(position)
    if found is None:
        raise Refusal(Why.AMBIGUOUS, f"{node.op} lacks its input {position}")
    return found


def wants(node: Node, position: int) -> bool:
    """Whether the output at a position has a name."""
    outputs = node.outputs
    return position < len(outputs) and outputs[position] is not None


def refuse(node: Node, *names: str) -> None:
    """Refuses attributes that are set, because no adapter expresses their effect."""
    for name in names:
        if attribute(node, name, 0):
            raise Refusal(Why.NOT_EXPRESSIBLE, f"{node.op} with {name}")


def number(node: Node, name: str, default: float) -> float:
    """A float attribute that no schema describes, or its default."""
    return default if node.attr(name) is None else node.float(name)
