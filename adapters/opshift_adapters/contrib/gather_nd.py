# SPDX-License-Identifier: Apache-2.0
"""GatherND, which ai.onnx has from opset 11 on."""

from opshift.adapter import Builder, Node, Result, T, example, leaving

from opshift_adapters._lib.blocks import as_type
from opshift_adapters._lib.contrib import MICROSOFT


@leaving("GatherND", domain=MICROSOFT, since=11)
@example(
    "pairs",
    "(float[3,4] x, int32[2,2] i) => (float[2] y) { y = com.microsoft.GatherND(x, i) }",
    gives="Cast GatherND",
    inputs={"i": [[0, 3], [2, 1]]},
)
def gather_nd(node: Node, op: Builder) -> Result:
    """GatherND of ai.onnx is written; its indices are cast to int64."""
    return op.GatherND(node["data"], as_type(op, node["indices"], T.INT64))
