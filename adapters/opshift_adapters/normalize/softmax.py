# SPDX-License-Identifier: Apache-2.0
"""Softmax, LogSoftmax and Hardmax: up to opset 12 of a flattened matrix, then along one axis."""

from opshift.adapter import (
    KEEP,
    Builder,
    Node,
    Refusal,
    Result,
    T,
    Value,
    Why,
    adapter,
    boundary,
    in_other_words,
    misread,
)

COERCING = ("Softmax", "LogSoftmax", "Hardmax")


def written_out(op: Builder, name: str, x: Value, axes: list[int]) -> Value:
    """Writes Softmax or LogSoftmax by its definition, for any rank."""
    below = x - op.ReduceMax(x, axes=axes)
    powers = op.Exp(below)
    total = op.ReduceSum(powers, axes=axes)
    return powers / total if name == "Softmax" else below - op.Log(total)


def softmax_11_10(node: Node, op: Builder) -> Result:
    """Below opset 11, `axis` of Softmax is positive; for an unknown rank, Transpose reverses x."""
    x, axis = node["input"], node.int("axis")
    if axis >= 0:
        return KEEP
    if x.rank_or_none is not None:
        return op.same(node, axis=axis + x.rank)
    turned = op.Transpose(x)
    if node.op != "Hardmax":
        return op.Transpose(written_out(op, node.op, turned, list(range(-axis))))
    if axis != -1:
        raise Refusal(Why.NEEDS_RANK, f"the rank of {x.name!r} is unknown")
    first = op.Transpose(op.ArgMax(turned, axis=0, keepdims=0))
    size = op.Gather(op.Shape(turned), op.const(0))
    return op.OneHot(first, size, op.const([0, 1], like=x))


SOFTMAX_11 = boundary(11, "Softmax:5908d9 LogSoftmax:b92fe2 Hardmax:97355a", down=softmax_11_10)


@misread(
    "Softmax LogSoftmax",
    "onnxruntime 1.14..1.16",
    source="2026-11-28 1.14..1.17: three opsets",
    since=18,
    wider="input",
)
def of_float16(node: Node) -> bool:
    """{op} of float16 does not load at opset 18 and above."""
    return node["input"].elem_type_or_none == T.FLOAT16


@adapter(COERCING, 12, 13)
def softmax_12_13(node: Node, op: Builder) -> Result:
    """Softmax below opset 13 normalizes all axes from `axis` on; Flatten merges these into one."""
    x, axis = node["input"], node.int("axis")
    rank = x.rank_or_none
    if rank is not None and not -rank <= axis < rank:
        raise Refusal(Why.AMBIGUOUS, f"axis {axis} is outside of a tensor of rank {rank}")
    if axis == -1 or (rank is not None and axis == rank - 1):
        return op.same(node, axis=axis)
    dims = x.dims_or_none
    if dims is not None and only_ones_after(dims, axis):
        return op.same(node, axis=axis)
    flat = op.same(node, inputs={"input": op.Flatten(x, axis=axis)}, axis=-1)
    if dims is not None and sizes_survive(dims, axis % len(dims)):
        return op.Reshape(flat, op.Shape(x))
    return op.Reshape(flat, op.Shape(x), allowzero=1)


def sizes_survive(dims: tuple[int | str | None, ...], axis: int) -> bool:
    """Returns whether Reshape can copy each unknown size, because its axis keeps its position."""
    kept = ({0} if axis > 0 else set()) | ({1} if axis <= 1 else set())
    return all(at in kept or (isinstance(n, int) and n > 0) for at, n in enumerate(dims))


def only_ones_after(dims: tuple[int | str | None, ...], axis: int) -> bool:
    return all(size == 1 for size in dims[axis:][1:])


@adapter(COERCING, 13, 12)
def softmax_13_12(node: Node, op: Builder) -> Result:
    """Below opset 13, only Softmax of the last axis is equal; Transposes move `axis` to the end."""
    x, axis = node["input"], node.int("axis")
    if axis == -1:
        return op.same(node, axis=-1)
    if x.rank_or_none is None:
        return hardmax(op, x, axis) if node.op == "Hardmax" else written_out(op, node.op, x, [axis])
    last, axis = x.rank - 1, axis % max(x.rank, 1)
    if only_ones_after(x.dims, axis):
        return op.same(node, axis=axis)
    swap = list(range(x.rank))
    swap[axis], swap[last] = last, axis
    there = op.same(node, inputs={"input": op.Transpose(x, perm=swap)}, axis=-1)
    return op.Transpose(there, perm=swap)


def hardmax(op: Builder, x: Value, axis: int) -> Value:
    size = op.Gather(op.Shape(x), op.const(axis))
    first = op.ArgMax(x, axis=axis, keepdims=0)
    return op.OneHot(first, size, op.const([0, 1], like=x), axis=axis)


@in_other_words("Softmax LogSoftmax", mirrored=True)
def by_definition(node: Node, op: Builder) -> Result:
    """Softmax is written as Exp(x - largest) divided by its sum, LogSoftmax as Log of that."""
    if op.version < 13:  # below opset 13, the operator flattens its input to two axes
        return KEEP  # pragma: no cover: only a runtime of the caller asks for this form
    return written_out(op, node.op, node["input"], [node.int("axis")])


@in_other_words("Hardmax")
def one_at_the_largest(node: Node, op: Builder) -> Result:
    """Hardmax is written as 1 at the index that ArgMax finds, and 0 elsewhere."""
    x, axis = node["input"], node.int("axis")
    if op.version < 13:  # below opset 13, the operator flattens its input to two axes
        return KEEP  # pragma: no cover: only a runtime of the caller asks for this form
    return hardmax(op, x, axis)
