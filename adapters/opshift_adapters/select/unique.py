# SPDX-License-Identifier: Apache-2.0
"""Unique: the distinct elements of a tensor."""

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
    alternative,
    boundary,
    misread,
)
from opshift.combinators import cast_around

from opshift_adapters._lib.blocks import arange
from opshift_adapters._lib.kinds import FLOATS, as_type


@adapter("Unique", 11, 10, in_other_words=True)
def unique_11_10(node: Node, op: Builder) -> Result:
    """Below opset 11, Unique becomes a comparison of each element with every other element."""
    x = node["X"]
    if x.elem_type in (T.STRING, T.COMPLEX64, T.COMPLEX128):
        raise Refusal(Why.NOT_EXPRESSIBLE, "Unique of strings is impossible below opset 11")
    if node.attr("axis") is not None and x.rank != 1:
        raise Refusal(Why.NOT_EXPRESSIBLE, "Unique of slices is impossible below opset 11")
    flat = op.Reshape(x, op.const([-1]))
    keys = op.Cast(flat, to=T.INT32) if x.elem_type == T.BOOL else flat
    place = arange(op, op.Size(flat))
    column, row = (op.Unsqueeze(place, axes=[axis]) for axis in (1, 0))
    smaller, same = _order(op, keys)
    met_before = _count(op, same & (row < column))
    is_first = op.Equal(met_before, op.const(0))
    first = op.Reshape(op.NonZero(is_first), op.const([-1]))
    firsts = op.Unsqueeze(is_first, axes=[0])
    rank = None
    if node.int("sorted"):
        rank = _count(op, smaller & firsts)
        slots = op.Unsqueeze(arange(op, op.Size(first)), axes=[1])
        there = op.Equal(slots, op.Unsqueeze(op.Gather(rank, first), axes=[0]))
        first = _picked(op, there, op.Unsqueeze(first, axes=[0]))
    values = op.Gather(flat, first)
    if node.n_outputs <= 2:
        return values, first
    if rank is None:
        met = op.Unsqueeze(_picked(op, same & firsts, row), axes=[1])
        rank = _count(op, (row < met) & firsts)
    return values, first, rank, op.Gather(_count(op, same), first)


@misread("Unique", "onnxruntime 1.0..1.7", source="2026-11-30 1.0..1.8: 13 types")
def lacks_a_type(node: Node) -> bool:
    """Unique of this element type does not run."""
    return node["X"].elem_type not in (T.FLOAT, T.INT64, T.INT8, T.STRING)


@alternative("Unique", runtime="onnxruntime==1.7")
def of_wider_elements(node: Node, op: Builder) -> Result:
    """Unique of other elements is computed in int64 or float, if that is exact."""
    x = node["X"]
    kind = T(x.elem_type).element
    wide = next((wider for wider in (T.INT64, T.FLOAT) if wider.element.holds(kind)), None)
    if wide is None:
        return KEEP
    y, *others = op.same(node, inputs={"X": as_type(op, x, wide)}, outputs=node.n_outputs)
    return (as_type(op, y, x.elem_type), *others)


def _order(op: Builder, x: Value) -> tuple[Value, Value]:
    """Returns two matrices: whether element j is less than element i, and whether it is equal."""
    column, row = op.Unsqueeze(x, axes=[1]), op.Unsqueeze(x, axes=[0])
    smaller, larger = row < column, column < row
    if x.elem_type in FLOATS:  # NaN is larger than every number and equal to NaN
        column_nan, row_nan = op.IsNaN(column), op.IsNaN(row)
        smaller = smaller | column_nan & ~row_nan
        larger = larger | row_nan & ~column_nan
    return smaller, ~(smaller | larger)


def _count(op: Builder, matrix: Value) -> Value:
    """Returns the number of true elements in each row."""
    return op.Cast(op.ReduceSum(op.Cast(matrix, to=T.DOUBLE), axes=[1], keepdims=0), to=T.INT64)


def _picked(op: Builder, matrix: Value, places: Value) -> Value:
    """Returns the index of the only true element in each row."""
    chosen = op.Cast(matrix, to=T.DOUBLE) * op.Cast(places, to=T.DOUBLE)
    return op.Cast(op.ReduceSum(chosen, axes=[1], keepdims=0), to=T.INT64)


UNIQUE_28 = boundary(28, "Unique:fccede", cast=cast_around("float"))
