# SPDX-License-Identifier: Apache-2.0
"""Trilu, which ai.onnx has from opset 14 on."""

from opshift.adapter import Builder, Node, Result, example, leaving

from opshift_adapters._lib.contrib import MICROSOFT


@leaving("Trilu", domain=MICROSOFT, since=14)
@example(
    "upper", "(float[2,3,4] x) => (float[2,3,4] y) { y = com.microsoft.Trilu(x) }", gives="Trilu"
)
def trilu(node: Node, op: Builder) -> Result:
    """Trilu of ai.onnx is written, with the same inputs."""
    return op.Trilu(node["X"], node.input("k"), upper=node.int("upper"))
