"""Softmax, LogSoftmax, Hardmax: through 12 the input is a matrix, from 13 one axis counts."""

from opshift.adapter import Builder, Node, Result, Why, adapter, boundary, example, shown
from opshift.combinators import positive_axis

COERCING = ("Softmax", "LogSoftmax", "Hardmax")
RANKLESS = "(float[24] v, int64[n] s) => (float[a,b,c] y) { x = Reshape(v, s) "
SHAPE = {"s": [2, 3, 4]}


@adapter(COERCING, 12, 13, emits=("Flatten", "Reshape", "Shape"))
@example("last axis", "(float[2,3,4] x) => (float[2,3,4] y) { y = Softmax<axis=2>(x) }", gives="Softmax")
@example("default axis of rank 3", "(float[2,3,4] x) => (float[2,3,4] y) { y = Softmax(x) }", gives="Flatten Softmax Shape Reshape")
@example("negative axis", "(float[2,3,4] x) => (float[2,3,4] y) { y = LogSoftmax<axis=-2>(x) }", gives="Flatten LogSoftmax Shape Reshape")
@example("unknown rank", RANKLESS + "y = Hardmax<axis=1>(x) }", gives="Reshape Flatten Hardmax Shape Reshape", inputs=SHAPE)
@example("only ones after the axis", "(float[2,3,1] x) => (float[2,3,1] y) { y = Softmax(x) }", gives="Softmax")
@example("hardmax over two axes", "(float[2,3,4] x) => (float[2,3,4] y) { y = Hardmax(x) }", gives="Flatten Hardmax Shape Reshape")
def softmax_12_13(node: Node, op: Builder) -> Result:
    """Through 12 the input is coerced to 2-D at `axis`; from 13 `axis` alone is normalised."""
    x, axis = node["input"], node.int("axis")
    dims = x.dims_or_none
    if axis == -1 or (dims is not None and all(d == 1 for d in dims[axis % len(dims) :][1:])):
        return op.same(node, axis=axis)
    flat = op.same(node, inputs={"input": op.Flatten(x, axis=axis)}, axis=-1)
    return op.Reshape(flat, op.Shape(x))


@adapter(COERCING, 13, 12, emits=("Transpose", "Exp", "Log", "Sub", "Div", "ReduceMax", "ReduceSum"))
@example("default", "(float[2,3,4] x) => (float[2,3,4] y) { y = Softmax(x) }", gives="Softmax")
@example("last axis", "(float[2,3,4] x) => (float[2,3,4] y) { y = LogSoftmax<axis=2>(x) }", gives="LogSoftmax")
@example("middle axis", "(float[2,3,4] x) => (float[2,3,4] y) { y = Softmax<axis=1>(x) }", gives="Transpose Softmax Transpose")
@example("first axis of Hardmax", "(float[2,3,4] x) => (float[2,3,4] y) { y = Hardmax<axis=-3>(x) }", gives="Transpose Hardmax Transpose")
@example("unknown rank, last axis", RANKLESS + "y = Softmax(x) }", gives="Reshape Softmax", inputs=SHAPE)
@example("unknown rank", RANKLESS + "y = Softmax<axis=1>(x) }", refuses=Why.NEEDS_RANK)
def softmax_13_12(node: Node, op: Builder) -> Result:
    """On the last axis both definitions agree: take `axis` there and back."""
    x, axis = node["input"], node.int("axis")
    if axis == -1:
        return op.same(node, axis=-1)
    last, axis = x.rank - 1, axis % x.rank
    if axis == last:
        return op.same(node, axis=-1)
    swap = list(range(x.rank))
    swap[axis], swap[last] = last, axis
    there = op.same(node, inputs={"input": op.Transpose(x, perm=swap)}, axis=-1)
    return op.Transpose(there, perm=swap)


SOFTMAX_11 = boundary(
    11,
    "Softmax:5908d9 LogSoftmax:b92fe2 Hardmax:97355a",
    down=shown(
        positive_axis(),
        example("default", "(float[2,3,4] x) => (float[2,3,4] y) { y = {op}(x) }", gives="{op}"),
        example("negative", "(float[2,3,4] x) => (float[2,3,4] y) { y = {op}<axis=-1>(x) }", gives="{op}"),
        example("unknown rank", RANKLESS + "y = Softmax<axis=-1>(x) }", refuses=Why.NEEDS_RANK),
        example("unknown rank, from the front", RANKLESS + "y = Softmax<axis=2>(x) }", inputs=SHAPE),
    ),
)
