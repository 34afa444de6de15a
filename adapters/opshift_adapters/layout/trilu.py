# SPDX-License-Identifier: Apache-2.0
"""Trilu: one triangle of a matrix."""

from opshift.adapter import Builder, Node, Refusal, Result, T, Value, Why, adapter, example

from opshift_adapters._lib.blocks import arange

LOWER = "{ y = Trilu<upper=0>(x, k) }"


@adapter("Trilu", 14, 13)
@example("upper", "(float[3,4] x) => (float[3,4] y) { y = Trilu(x) }")
@example("lower", "(double[3,4] x) => (double[3,4] y) { y = Trilu<upper=0>(x) }")
@example("infinite and no numbers", "(float16[2,2] x) => (float16[2,2] y) { y = Trilu(x) }", inputs={"x": [[1, -1], [float("inf"), float("nan")]]})
@example("diagonal", "(int64[2,N,M] x, int64 k) => (int64[2,N,M] y) { y = Trilu(x, k) }", inputs={"k": -1})
@example("a square of unknown size", "(float[N,N] x) => (float[N,N] y) { y = Trilu(x) }", gives="Shape Gather Range Unsqueeze Less Where")
@example("diagonal below", "(bool[4,3] x) => (bool[4,3] y) <int64 k = {-2}> " + LOWER)
@example("diagonal beyond the matrix", "(uint8[2,3] x, int64 k) => (uint8[2,3] y) " + LOWER, inputs={"k": -9})
@example("empty", "(float[0,3] x, int64 k) => (float[0,3] y) " + LOWER, inputs={"k": 1})
@example("string", "(string[2,2] x) => (string[2,2] y) { y = Trilu(x) }", refuses=Why.AMBIGUOUS)
@example("bfloat16", "(bfloat16[3,3] x) => (bfloat16[3,3] y) { y = Trilu(x) }")
@example("complex", "(complex64[3,3] x) => (complex64[3,3] y) { y = Trilu(x) }")
@example("unknown rank", "(float[24] v, int64[n] s) => (float[a,b,c] y) { x = Reshape(v, s) y = Trilu(x) }", inputs={"s": [2, 3, 4]})
@example("bool of unknown size", "(bool[N,M] x) => (bool[N,M] y) { y = Trilu(x) }")
def trilu_14_13(node: Node, op: Builder) -> Result:
    """Opset 14 added Trilu; below it, Where chooses x or 0 by the distance to the diagonal."""
    x, k = node["input"], node.input("k") or op.const(0)
    kind = x.elem_type
    if kind == T.STRING:
        raise Refusal(Why.AMBIGUOUS, "no specification defines the zero of strings for Trilu")
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
    chosen = op.Where(outside, op.const(0, T.FLOAT), op.Cast(x, to=T.FLOAT))
    return op.Cast(chosen, to=kind)


def _is_square(x: Value) -> bool:
    """Whether both sizes are known to be equal."""
    dims = x.dims_or_none
    return dims is not None and dims[-1] is not None and dims[-1] == dims[-2]


def _places(op: Builder, x: Value, axis: int) -> Value:
    size = x.dims_or_none[axis] if x.dims_or_none is not None else None
    if isinstance(size, int):
        return arange(op, op.const(size))
    return arange(op, op.Gather(op.Shape(x), op.const(axis), axis=0))
