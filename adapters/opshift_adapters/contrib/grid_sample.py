# SPDX-License-Identifier: Apache-2.0
"""GridSample, which ai.onnx has from opset 16 on."""

from opshift.adapter import Builder, Node, Result, leaving

from opshift_adapters._lib.contrib import MICROSOFT


@leaving("GridSample", domain=MICROSOFT, since=16)
def grid_sample(node: Node, op: Builder) -> Result:
    """GridSample of ai.onnx is written, with the same attributes."""
    return op.GridSample(
        node["X"],
        node["Grid"],
        mode=node.str("mode"),
        padding_mode=node.str("padding_mode"),
        align_corners=node.int("align_corners"),
    )
