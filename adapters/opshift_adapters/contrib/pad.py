# SPDX-License-Identifier: Apache-2.0
"""Pad, which ai.onnx has from opset 11 on."""

from opshift.adapter import Builder, Node, Result, example, leaving

from opshift_adapters._lib.contrib import MICROSOFT


@leaving("Pad", domain=MICROSOFT, since=11)
@example(
    "zeros",
    "(float[2,3] x) => (float[a,b] y) <int64[4] p = {0, 1, 2, 0}> { y = com.microsoft.Pad(x, p) }",
    gives="Pad",
)
def pad(node: Node, op: Builder) -> Result:
    """Pad of ai.onnx is written; its pads become a vector and its value a scalar."""
    pads, value = node["pads"], node.input("value")
    if pads.rank != 1:
        pads = op.Reshape(pads, op.const([-1]))
    if value is not None and value.rank_or_none != 0:
        value = op.Reshape(value, op.const([]))
    return op.Pad(node["data"], pads, value, mode=node.str("mode"))
