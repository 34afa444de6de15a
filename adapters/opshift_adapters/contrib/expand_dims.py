# SPDX-License-Identifier: Apache-2.0
"""ExpandDims: Unsqueeze at one axis."""

from opshift.adapter import Builder, Node, Result, T, example, leaving

from opshift_adapters._lib.contrib import MICROSOFT


@leaving("ExpandDims", domain=MICROSOFT, since=13)
@example(
    "constant",
    "(float[2,3] x) => (float[2,1,3] y) <int32 a = {1}> { y = com.microsoft.ExpandDims(x, a) }",
    gives="Unsqueeze",
)
def expand_dims(node: Node, op: Builder) -> Result:
    """ExpandDims is Unsqueeze at one axis; the axis becomes a vector."""
    axis = node["axis"]
    known = axis.const_or_none()
    if known is not None:
        return op.Unsqueeze(node["X"], op.const(known.reshape(1).astype("int64")))
    return op.Unsqueeze(node["X"], op.Reshape(op.Cast(axis, to=T.INT64), op.const([1])))
