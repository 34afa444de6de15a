# SPDX-License-Identifier: Apache-2.0
"""Unique, which ai.onnx has from opset 11 on with other outputs."""

from opshift.adapter import Builder, Node, Result, leaving

from opshift_adapters._lib.contrib import MICROSOFT


@leaving("Unique", domain=MICROSOFT, since=11)
def unique(node: Node, op: Builder) -> Result:
    """Unique of ai.onnx is written, unsorted and without its output of first indices."""
    y, _, place, count = op.Unique(node["x"], sorted=0, outputs=4)
    return (y, place, count)[: node.n_outputs]
