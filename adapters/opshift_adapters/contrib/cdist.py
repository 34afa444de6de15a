# SPDX-License-Identifier: Apache-2.0
"""CDist: distances between all pairs of rows, written by exporters of nearest-neighbour models."""

from opshift.adapter import Builder, Node, Refusal, Result, Value, Why, leaving

from opshift_adapters._lib.contrib import MICROSOFT


@leaving("CDist", domain=MICROSOFT, since=8)
def cdist(node: Node, op: Builder) -> Result:
    """CDist becomes a^2 + b^2 - 2ab of all pairs of rows, by MatMul and ReduceSumSquare."""
    metric = node.str("metric")
    if metric not in ("sqeuclidean", "euclidean"):
        raise Refusal(
            Why.NOT_EXPRESSIBLE, f"{node.op} with the metric {metric!r} is impossible in ai.onnx"
        )
    a, b = node["A"], node["B"]
    twice = op.MatMul(a, op.Transpose(b, perm=[1, 0])) * op.const(-2.0, like=a)
    squares = twice + _squares(op, a) + op.Transpose(_squares(op, b), perm=[1, 0])
    distances = op.Max(squares, op.const(0.0, like=a))
    return op.Sqrt(distances) if metric == "euclidean" else distances


def _squares(op: Builder, x: Value) -> Value:
    """Returns the sum of the squares of each row."""
    return op.ReduceSumSquare(x, op.const([1]))
