# SPDX-License-Identifier: Apache-2.0
"""FusedGemm, FusedMatMul and TransposeMatMul, written with operators of ai.onnx."""

from opshift.adapter import Builder, Node, Result, Value, leaving

from opshift_adapters._lib.contrib import MICROSOFT, activated, attribute


@leaving("FusedGemm", domain=MICROSOFT, since=11)
def fused_gemm(node: Node, op: Builder) -> Result:
    """FusedGemm is written as Gemm followed by its activation."""
    same = {name: node.attr(name) for name in ("alpha", "beta", "transA", "transB")}
    y = op.Gemm(node["A"], node["B"], node.input("C"), **same)
    parameters = [attribute(node, f"activation_{one}", None) for one in ("alpha", "beta", "gamma")]
    parameters_set = [parameter for parameter in parameters if parameter is not None]
    return activated(op, y, attribute(node, "activation", ""), parameters_set)


@leaving("FusedMatMul TransposeMatMul", domain=MICROSOFT)
def fused_matmul(node: Node, op: Builder) -> Result:
    """FusedMatMul, alpha * A @ B of transposed inputs, becomes Transpose, MatMul and Mul."""
    product = op.MatMul(_turned(node, op, "A"), _turned(node, op, "B"))
    alpha = node.float("alpha")
    return product if alpha == 1 else product * op.const(alpha, like=node["A"])


def _turned(node: Node, op: Builder, side: str) -> Value:
    x, swap = node[side], node.int(f"trans{side}")
    batch = node.int(f"transBatch{side}") if node.op == "FusedMatMul" else 0
    if not (swap or batch) or x.rank == 1:
        return x
    axes = list(range(x.rank))
    if batch:
        axes = [*axes[1:-1], axes[0], axes[-1]]
    if swap:
        axes[-2:] = axes[:-3:-1]
    return op.Transpose(x, perm=axes)
