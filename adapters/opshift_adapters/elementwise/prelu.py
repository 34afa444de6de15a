# SPDX-License-Identifier: Apache-2.0
"""PRelu: slopes per channel below opset 7, broadcast slopes from 7 on, integers from 9 on."""

from opshift.adapter import (
    KEEP,
    Builder,
    Node,
    Refusal,
    Result,
    T,
    Why,
    adapter,
    boundary,
    in_other_words,
    np,
)
from opshift.combinators import cast_around, drop_attribute

from opshift_adapters._lib.blocks import shape_of
from opshift_adapters._lib.kinds import FLOATS, UNSIGNED

PRELU_6 = boundary(6, "PRelu:dbd261", up=drop_attribute("consumed_inputs"))


@adapter("PRelu", 6, 7)
def prelu_6_7(node: Node, op: Builder) -> Result:
    """Below opset 7, slopes are a vector along axis 1; opset 7 needs trailing axes of size 1."""
    x, slope = node["X"], node["slope"]
    rank = x.rank_or_none
    if set(slope.dims) <= {1}:
        if slope.rank <= (1 if rank is None else rank):
            return KEEP
        return op.same(node, inputs={"slope": op.Reshape(slope, op.const([]))})
    if slope.rank != 1 or (rank is not None and rank <= 2):
        return KEEP
    if rank is not None:
        along = op.Unsqueeze(slope, axes=list(range(1, rank - 1)))
    else:
        behind = op.Slice(op.Shape(x), axes=[0], starts=[2], ends=[2**31])
        ones = behind * op.const(0) + op.const(1)
        along = op.Reshape(slope, op.Concat(op.const([-1]), ones, axis=0))
    return op.same(node, inputs={"slope": along})


@adapter("PRelu", 7, 6)
def prelu_7_6(node: Node, op: Builder) -> Result:
    """Below opset 7, PRelu with broadcast slopes is written as Relu(x) - slope * Relu(-x)."""
    x, slope = node["X"], node["slope"]
    dims = slope.dims
    if set(dims) <= {1}:
        return KEEP
    aligned = (1,) * (x.rank - len(dims)) + dims
    if all(d == 1 for i, d in enumerate(aligned) if i != 1):
        if len(dims) == 1:
            return KEEP
        return op.same(node, inputs={"slope": op.Reshape(slope, op.const([-1]))})
    constant = slope.const_or_none()
    if constant is not None and not np.isfinite(constant).all():
        raise Refusal(Why.NOT_EXPRESSIBLE, "infinite slopes of PRelu are impossible below opset 7")
    below = op.Relu(-x)
    whole = slope if dims == x.dims and None not in dims else op.Expand(slope, shape_of(op, x))
    return op.Relu(x) - below * whole


def prelu_9_8(node: Node, op: Builder) -> Result:
    """Below opset 9, PRelu of integers is written as x, plus slope * x - x if x is negative."""
    x, slope = node["X"], node["slope"]
    if x.elem_type in UNSIGNED:
        return op.Identity(x)
    negative = op.Cast(x, to=T.FLOAT) < op.const(0, T.FLOAT)
    change = x * slope - x
    return x + change * op.Cast(negative, to=x.elem_type)


PRELU_9 = boundary(9, "PRelu:73f504", cast=prelu_9_8)
PRELU_16 = boundary(16, "PRelu:a6b814", cast=cast_around("float"))


@in_other_words("PRelu")
def larger_of_both_slopes(node: Node, op: Builder) -> Result:
    """PRelu is written as Max(x, slope * x) if 0 < slope <= 1, else with Where."""
    x, slope = node["X"], node["slope"]
    below, constant = x * slope, slope.const_or_none()
    if constant is not None and x.elem_type in FLOATS and ((constant > 0) & (constant <= 1)).all():
        return op.Max(x, below)
    return op.Where(x < op.const(0, like=x), below, x)
