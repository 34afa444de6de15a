# SPDX-License-Identifier: Apache-2.0
"""Inverse: the inverse of small matrices."""

from opshift.adapter import Builder, Node, Refusal, Result, Value, Why, leaving, np

from opshift_adapters._lib.contrib import MICROSOFT

COFACTORS = "cofactors replace the Gauss elimination of onnxruntime and round differently"


@leaving("Inverse", domain=MICROSOFT, since=11, approximate=True)
def inverse(node: Node, op: Builder) -> Result:
    """Inverse of up to 3 rows is written as transposed cofactors divided by the determinant."""
    x = node["X"]
    size = x.dims[-1]
    if size == 1:
        return op.Reciprocal(x)
    if size not in (2, 3):
        raise Refusal(
            Why.NOT_EXPRESSIBLE, f"{node.op} needs matrices with 1, 2 or 3 rows in ai.onnx"
        )
    op.approximate(f"{node.op}: {COFACTORS}")
    cofactors = _of_two(op, x) if size == 2 else _of_three(op, x)
    determinant = op.ReduceSum(x * cofactors, op.const([x.rank - 1]), keepdims=1)
    axes = list(range(x.rank))
    return op.Transpose(cofactors, perm=[*axes[:-2], axes[-1], axes[-2]]) / determinant


def _of_two(op: Builder, x: Value) -> Value:
    """Returns the cofactors of 2 x 2 matrices: the opposite elements, two of them negated."""
    turned = op.Gather(
        op.Gather(x, op.const([1, 0]), axis=x.rank - 2), op.const([1, 0]), axis=x.rank - 1
    )
    return turned * op.const(np.array([[1, -1], [-1, 1]]), like=x)


def _of_three(op: Builder, x: Value) -> Value:
    """Returns the cofactors of 3 x 3 matrices, from elements one and two cyclic steps further."""
    steps = {1: op.const([1, 2, 0]), 2: op.const([2, 0, 1])}

    def behind(rows: int, columns: int) -> Value:
        moved = op.Gather(x, steps[rows], axis=x.rank - 2)
        return op.Gather(moved, steps[columns], axis=x.rank - 1)

    return behind(1, 1) * behind(2, 2) - behind(1, 2) * behind(2, 1)
