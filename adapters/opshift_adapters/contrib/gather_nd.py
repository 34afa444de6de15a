# SPDX-License-Identifier: Apache-2.0
"""GatherND, which ai.onnx has from opset 11 on."""

from opshift.adapter import Builder, Node, Result, T, leaving

from opshift_adapters._lib.blocks import as_type
from opshift_adapters._lib.contrib import MICROSOFT


@leaving("GatherND", domain=MICROSOFT, since=11)
def gather_nd(node: Node, op: Builder) -> Result:
    """GatherND of ai.onnx is written; its indices are cast to int64."""
    return op.GatherND(node["data"], as_type(op, node["indices"], T.INT64))
