# SPDX-License-Identifier: Apache-2.0
"""FusedGemm: Gemm followed by an activation."""

from opshift.adapter import Builder, Node, Result, example, leaving

from opshift_adapters._lib.contrib import MICROSOFT, activated, attribute

GIVEN = "(float[3,4] a, float[4,5] b, float[5] c) => (float[3,5] y) { y = com.microsoft.FusedGemm"


@leaving("FusedGemm", domain=MICROSOFT, since=11)
@example("relu", GIVEN + '<activation="Relu">(a, b, c) }', gives="Gemm Relu")
def fused_gemm(node: Node, op: Builder) -> Result:
    """FusedGemm is Gemm and an activation; both are written."""
    same = {name: node.attr(name) for name in ("alpha", "beta", "transA", "transB")}
    y = op.Gemm(node["A"], node["B"], node.input("C"), **same)
    parameters = [attribute(node, f"activation_{one}", None) for one in ("alpha", "beta", "gamma")]
    told = [one for one in parameters if one is not None]
    return activated(op, y, attribute(node, "activation", ""), told)
