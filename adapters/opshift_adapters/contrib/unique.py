# SPDX-License-Identifier: Apache-2.0
"""Unique, which ai.onnx has from opset 11 on with other outputs."""

from opshift.adapter import Builder, Node, Result, example, leaving

from opshift_adapters._lib.contrib import MICROSOFT


@leaving("Unique", domain=MICROSOFT, since=11)
@example(
    "all outputs",
    "(float[6] x) => (float[a] y, int64[6] i, int64[a] c) { y, i, c = com.microsoft.Unique(x) }",
    gives="Unique",
    inputs={"x": [2, 1, 1, 3, 4, 3]},
)
def unique(node: Node, op: Builder) -> Result:
    """Unique of ai.onnx is written, unsorted and without its output of first indices."""
    y, _, place, count = op.Unique(node["x"], sorted=0, outputs=4)
    return (y, place, count)[: node.n_outputs]
