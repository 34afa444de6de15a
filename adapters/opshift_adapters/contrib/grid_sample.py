# SPDX-License-Identifier: Apache-2.0
"""GridSample, which ai.onnx has from opset 16 on."""

from opshift.adapter import Builder, Node, Result, example, leaving

from opshift_adapters._lib.contrib import MICROSOFT

GRID = "(float[1,2,4,5] x, float[1,3,2,2] g) => (float[1,2,3,2] y) { y = com.microsoft.GridSample"


@leaving("GridSample", domain=MICROSOFT, since=16)
@example(
    "plain",
    GRID + "(x, g) }",
    imports={"": 16},
    gives="GridSample",
    atol=1e-5,
    inputs={
        "g": [[[[0.1, -0.3], [0.9, 0.2]], [[-1.2, 0.5], [0.4, 0.4]], [[0.0, 1.0], [-0.7, -0.8]]]]
    },
)
def grid_sample(node: Node, op: Builder) -> Result:
    """GridSample of ai.onnx is written, with the same attributes."""
    return op.GridSample(
        node["X"],
        node["Grid"],
        mode=node.str("mode"),
        padding_mode=node.str("padding_mode"),
        align_corners=node.int("align_corners"),
    )
