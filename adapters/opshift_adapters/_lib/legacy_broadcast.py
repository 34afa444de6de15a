# SPDX-License-Identifier: Apache-2.0
"""Broadcasting of binary operators below opset 7: only the second operand, along `axis`."""

from typing import Any

from opshift.adapter import KEEP, Builder, Node, Refusal, Result, Value, Why

from opshift_adapters._lib.blocks import broadcast, shape_of
from opshift_adapters._lib.kinds import UNSIGNED
from opshift_adapters._lib.repeats import Dims, covers, equal, repeated_to
from opshift_adapters.modern import arithmetic as sums

SYMMETRIC = (sums.SUM.join, sums.PRODUCT.join, *sums.EITHER_WAY.ops)
MIRRORED = {"Less": "Greater", "Greater": "Less", **{op: op for op in SYMMETRIC}}


def drop_legacy_broadcast(node: Node, op: Builder) -> Result:
    """Opset 7 broadcasts like numpy, without `axis`; B gets trailing axes of size 1 instead."""
    a, b = node.inputs
    assert a is not None
    assert b is not None
    axis = node.attr("axis")
    if axis is not None and axis < -1 and node.int("broadcast"):
        raise Refusal(Why.AMBIGUOUS, f"axis={axis} is not defined before opset 7")
    aligned_at_end = not node.int("broadcast") or axis in (None, -1)
    one_element = b.dims_or_none is not None and set(b.dims) <= {1}
    if aligned_at_end or one_element:
        return op.same(node, axis=None, broadcast=None)
    if a.rank_or_none is not None and b.rank_or_none is not None:
        missing = a.rank - axis - b.rank
        if missing > 0:
            b = op.Unsqueeze(b, axes=list(range(b.rank, b.rank + missing)))
        return _binary(op, node.op, a, b)
    ranks = op.Shape(op.Shape(a)) - op.Shape(op.Shape(b))
    ones = op.Tile(op.const([1]), ranks - op.const([axis]))
    longer = op.Reshape(b, op.Concat(op.Shape(b), ones, axis=0))
    return _binary(op, node.op, a, longer)


def _binary(op: Builder, name: str, a: Value, b: Value, **legacy: Any) -> Value:
    result: Value = op.emit(name, a, b, **legacy)
    return result


def to_legacy_broadcast(node: Node, op: Builder) -> Result:
    """Below opset 7, only B broadcasts, along consecutive axes of A; other inputs are expanded."""
    name, (a, b) = node.op, node.inputs
    assert a is not None
    assert b is not None
    if a.is_same(b) or equal(a.dims_or_none, b.dims_or_none):
        return KEEP
    block = _block(a.dims_or_none, b.dims_or_none)
    if block is not None:
        return _stretched(op, name, a, b, block)
    block = _block(b.dims_or_none, a.dims_or_none)
    if block is not None and name in MIRRORED:
        return _stretched(op, MIRRORED[name], b, a, block)
    if block is not None and name == "Sub" and a.elem_type not in UNSIGNED:
        return _stretched(op, "Add", -b, a, block)
    if covers(a.dims, b.dims):
        return _binary(op, name, a, _expanded(op, b, a))
    if covers(b.dims, a.dims):
        return _binary(op, name, _expanded(op, a, b), b)
    if a.shape_or_none is not None and b.shape_or_none is not None:
        broadcast(a.shape_or_none, b.shape_or_none)  # raises for shapes that do not fit
    return _binary(op, name, _expanded(op, a, b), _expanded(op, b, a))


def _expanded(op: Builder, x: Value, partner: Value) -> Value:
    """Broadcasts `x` to the shape of another input by Tile, or by Expand if a size is unknown."""
    shape, dims, missing = shape_of(op, partner), partner.dims, partner.rank - x.rank
    wide = op.Unsqueeze(x, axes=list(range(missing))) if missing > 0 else x
    repeated = repeated_to(op, wide, shape, dims)
    return op.Expand(x, shape) if repeated is None else repeated


def _block(large: Dims | None, small: Dims | None) -> tuple[int, int] | None:
    """Returns the range of axes of `small` that match `large`, without outer axes of size 1."""
    if small == ():
        return 0, 0
    if large is None or small is None or len(small) > len(large):
        return None
    if set(small) == {1}:
        return 0, len(small)
    whole = large[len(large) - len(small) :]
    if equal(whole, small):
        return 0, len(small)
    long = [i for i, d in enumerate(small) if d != 1]
    start, stop = long[0], long[-1] + 1
    return (start, stop) if equal(whole[start:stop], small[start:stop]) else None


def _stretched(op: Builder, name: str, a: Value, b: Value, block: tuple[int, int]) -> Value:
    start, stop = block
    outside = [*range(start), *range(stop, b.rank)]
    if not outside:
        return _binary(op, name, a, b, broadcast=1)
    small = op.Squeeze(b, axes=outside)
    if stop == b.rank:
        return _binary(op, name, a, small, broadcast=1)
    return _binary(op, name, a, small, broadcast=1, axis=a.rank - b.rank + start)
