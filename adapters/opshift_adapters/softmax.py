"""Softmax, LogSoftmax, Hardmax: through 12 the input is a matrix, from 13 one axis counts."""

import numpy as np
from opshift.adapter import (
    Builder,
    Node,
    Refusal,
    Result,
    Value,
    Why,
    adapter,
    boundary,
    example,
    shown,
)
from opshift.combinators import positive_axis

from opshift_adapters.blocks import RESHAPE_TO, reshape_to

COERCING = ("Softmax", "LogSoftmax", "Hardmax")
RANKLESS = "(float[n] v, int64[k] s) => (float[a,b,c] y) { x = Reshape(v, s) "
SHAPE = {"v": np.linspace(-3, 3, 24), "s": [2, 3, 4]}
EMPTY = {"v": np.zeros(0), "s": [0, 3, 4]}

SOFTMAX_11 = boundary(
    11,
    "Softmax:5908d9 LogSoftmax:b92fe2 Hardmax:97355a",
    down=shown(
        positive_axis(),
        example("default", "(float[2,3,4] x) => (float[2,3,4] y) { y = {op}(x) }", gives="{op}"),
        example("negative", "(float[2,3,4] x) => (float[2,3,4] y) { y = {op}<axis=-1>(x) }", gives="{op}"),
        example("unknown rank", RANKLESS + "y = {op}<axis=-1>(x) }", refuses=Why.NEEDS_RANK),
        example("unknown rank, from the front", RANKLESS + "y = {op}<axis=2>(x) }", inputs=SHAPE),
    ),
)


@adapter(COERCING, 12, 13, emits=("Flatten", *RESHAPE_TO))
@example("last axis", "(float[2,3,4] x) => (float[2,3,4] y) { y = {op}<axis=2>(x) }", gives="{op}")
@example("default axis of rank 3", "(float[2,3,4] x) => (float[2,3,4] y) { y = {op}(x) }", gives="Flatten {op} Shape Reshape")
@example("negative axis", "(float[2,3,4] x) => (float[2,3,4] y) { y = {op}<axis=-2>(x) }", gives="Flatten {op} Shape Reshape")
@example("unknown rank", RANKLESS + "y = {op}<axis=1>(x) }", inputs=SHAPE)
@example("unknown rank, empty", RANKLESS + "y = {op}<axis=1>(x) }", inputs=EMPTY)
@example("perhaps empty", "(float[N,3,M] x) => (float[N,3,M] y) { y = {op}(x) }", inputs={"x": np.zeros((0, 3, 4))})
@example("empty", "(float[2,3,0] x) => (float[2,3,0] y) { y = {op}<axis=0>(x) }")
@example("only ones after the axis", "(float[N,3,1] x) => (float[N,3,1] y) { y = {op}(x) }", gives="{op}")
@example("matrix", "(float16[N,3] x) => (float16[N,3] y) { y = {op}(x) }", gives="{op}")
@example("default axis of a vector", "(float[3] x) => (float[3] y) { y = {op}(x) }", refuses=Why.AMBIGUOUS)
def softmax_12_13(node: Node, op: Builder) -> Result:
    """Through 12 the input is coerced to 2-D at `axis`; from 13 `axis` alone is normalised."""
    x, axis = node["input"], node.int("axis")
    dims = x.dims_or_none
    if dims is not None and not -len(dims) <= axis < len(dims):
        raise Refusal(Why.AMBIGUOUS, f"axis {axis} lies outside a tensor of rank {len(dims)}")
    if axis == -1 or (dims is not None and only_ones_after(dims, axis)):
        return op.same(node, axis=axis)
    flat = op.same(node, inputs={"input": op.Flatten(x, axis=axis)}, axis=-1)
    return reshape_to(op, flat, op.Shape(x))


def only_ones_after(dims: tuple[int | str | None, ...], axis: int) -> bool:
    return all(size == 1 for size in dims[axis:][1:])


RANK_FREE = ("Exp", "Log", "Sub", "Div", "ReduceMax", "ReduceSum")


@adapter(COERCING, 13, 12, emits=("Transpose", *RANK_FREE, "ArgMax", "OneHot", "Shape", "Gather"))
@example("default", "(float[2,3,4] x) => (float[2,3,4] y) { y = {op}(x) }", gives="{op}")
@example("last axis", "(float[2,3,4] x) => (float[2,3,4] y) { y = {op}<axis=2>(x) }", gives="{op}")
@example("middle axis", "(float[2,3,4] x) => (float[2,3,4] y) { y = {op}<axis=1>(x) }", gives="Transpose {op} Transpose", atol=1e-7)
@example("first axis", "(float[2,3,4] x) => (float[2,3,4] y) { y = {op}<axis=-3>(x) }", gives="Transpose {op} Transpose", atol=1e-7)
@example("only ones after the axis", "(float[2,3,1] x) => (float[2,3,1] y) { y = {op}<axis=-2>(x) }", gives="{op}")
@example("ties", "(float[3,4] x) => (float[3,4] y) { y = {op}<axis=0>(x) }", inputs={"x": np.ones((3, 4))})
@example("unknown sizes", "(double[N,M,4] x) => (double[N,M,4] y) { y = {op}<axis=0>(x) }", gives="Transpose {op} Transpose", atol=1e-16)
@example("unknown rank, last axis", RANKLESS + "y = {op}(x) }", gives="Reshape {op}", inputs=SHAPE)
@example("unknown rank", RANKLESS + "y = {op}<axis=1>(x) }", inputs=SHAPE)
@example("unknown rank, from the end", RANKLESS + "y = {op}<axis=-2>(x) }", inputs=SHAPE)
def softmax_13_12(node: Node, op: Builder) -> Result:
    """On the last axis both definitions agree: take `axis` there and back."""
    x, axis = node["input"], node.int("axis")
    if axis == -1:
        return op.same(node, axis=-1)
    if x.rank_or_none is None:
        return written_out(node, op)
    last, axis = x.rank - 1, axis % max(x.rank, 1)
    if only_ones_after(x.dims, axis):
        return op.same(node, axis=axis)
    swap = list(range(x.rank))
    swap[axis], swap[last] = last, axis
    there = op.same(node, inputs={"input": op.Transpose(x, perm=swap)}, axis=-1)
    return op.Transpose(there, perm=swap)


def written_out(node: Node, op: Builder) -> Value:
    """The definition along one axis, whatever the rank."""
    x, axis = node["input"], node.int("axis")
    if node.op == "Hardmax":
        size = op.Gather(op.Shape(x), op.const(axis))
        first = op.ArgMax(x, axis=axis, keepdims=0)
        return op.OneHot(first, size, op.const([0, 1], like=x), axis=axis)
    below = op.Sub(x, op.ReduceMax(x, axes=[axis]))
    powers = op.Exp(below)
    total = op.ReduceSum(powers, axes=[axis])
    return op.Div(powers, total) if node.op == "Softmax" else op.Sub(below, op.Log(total))
