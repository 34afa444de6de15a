# SPDX-License-Identifier: Apache-2.0
"""Trilu: the upper or lower triangle of a matrix."""

from opshift.adapter import Builder, Node, Refusal, Result, T, Value, Why, adapter

from opshift_adapters._lib.blocks import arange


@adapter("Trilu", 14, 13, in_other_words=True)
def trilu_14_13(node: Node, op: Builder) -> Result:
    """Below opset 14, Trilu becomes Where, which selects x or 0 by the distance to the diagonal."""
    x, k = node["input"], node.input("k") or op.const(0)
    kind = x.elem_type
    if kind == T.STRING:
        raise Refusal(Why.AMBIGUOUS, "no specification defines which string Trilu writes as zero")
    columns = _places(op, x, -1)
    rows = columns if _is_square(x) else _places(op, x, -2)
    rows, at = op.Unsqueeze(rows, op.const([1])), k.const_or_none()
    if at is None or at.any():
        columns, rows = columns - rows, k
    outside = columns < rows if node.int("upper") else columns > rows
    if kind == T.BOOL:
        return ~outside & x
    if kind != T.BFLOAT16:
        return op.Where(outside, op.const(0, kind), x)
    return op.Cast(op.Where(outside, op.const(0, T.FLOAT), op.Cast(x, to=T.FLOAT)), to=kind)


def _is_square(x: Value) -> bool:
    """Returns whether the last two sizes are known to be equal."""
    dims = x.dims_or_none
    return dims is not None and dims[-1] is not None and dims[-1] == dims[-2]


def _places(op: Builder, x: Value, axis: int) -> Value:
    size = x.dims_or_none[axis] if x.dims_or_none is not None else None
    if isinstance(size, int):
        return arange(op, op.const(size))
    return arange(op, op.Gather(op.Shape(x), op.const(axis), axis=0))
