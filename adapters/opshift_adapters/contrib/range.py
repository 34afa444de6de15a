# SPDX-License-Identifier: Apache-2.0
"""Range, which ai.onnx has from opset 11 on."""

from opshift.adapter import Builder, Node, Result, leaving

from opshift_adapters._lib.contrib import MICROSOFT


@leaving("Range", domain=MICROSOFT, since=11)
def range_(node: Node, op: Builder) -> Result:
    """Range of ai.onnx is written; it needs a step, which is 1 if the node has none."""
    start, step = node["start"], node.input("delta")
    return op.Range(start, node["limit"], op.const(1, like=start) if step is None else step)
