# SPDX-License-Identifier: Apache-2.0
"""The nodes that compute the inputs of a node."""

from opshift.adapter import Node, Value


def maker(x: Value | None, *ops: str) -> Node | None:
    """Returns the node that computes a value, if it is one of these operators of ai.onnx."""
    producer = x.producer if x is not None else None
    if producer is None or producer.proto.domain not in ("", "ai.onnx") or producer.schema is None:
        return None
    return producer if producer.op in ops else None


def unmoved(x: Value | None, *ops: str) -> Value | None:
    """Returns the value before a chain of nodes of these operators, which only move elements."""
    while (mover := maker(x, *ops)) is not None:
        x = mover.inputs[0]
    return x
