# SPDX-License-Identifier: Apache-2.0
"""Integers below opset 6, where only ReduceSum and ReduceProd add and multiply them.

Some runtimes compute these two operators in double. Therefore a Cast to the same type marks each
sum and each product, and the adapter of Cast from 5 to 6 replaces them by Add and Mul.
"""

import functools
from typing import Any

from opshift.adapter import Builder, Node, T, Value, np

from opshift_adapters._lib.kinds import WIDE_INTS, held_by_double, in_double
from opshift_adapters._lib.makers import maker

UNDER_ONE = 1 - 2.0**-50  # makes a rounded quotient not larger than the exact quotient


def wide_arithmetic(node: Node, op: Builder) -> Value:
    """Writes Add, Sub, Mul or Div of int64 or uint64 with wrap-around (below opset 6)."""
    a, kind = node["A"], node["A"].elem_type
    if held_by_double(a) and held_by_double(node["B"]) and _result_is_held(node):
        (result,) = op.same_but(node, [in_double(op, a), in_double(op, node["B"])])
        return op.Cast(result, to=kind)
    b = _stretched(node, op, kind)
    if node.op == "Add":
        return add_stacked(op, kind, a, b)
    if node.op == "Sub":
        return _difference(op, a, b, kind)
    if node.op == "Mul":
        return multiply_stacked(op, kind, a, b)
    return _quotient(op, a, b) if kind == T.INT64 else _unsigned_quotient(op, a, b)


def _result_is_held(node: Node) -> bool:
    """Returns whether double represents the result exactly; a quotient is at most the dividend."""
    (result,) = node.outputs
    return node.op == "Div" or (result is not None and held_by_double(result))


def add_stacked(op: Builder, kind: int, *values: Value) -> Value:
    """Writes the sum of integer tensors of the same shape and type (below opset 6)."""
    return add_rows(op, kind, _stacked(op, values))


def add_rows(op: Builder, kind: int, stack: Value) -> Value:
    """Writes the sum of integers over the first axis (below opset 6)."""
    return op.Cast(op.ReduceSum(stack, axes=[0], keepdims=0), to=kind)


def multiply_stacked(op: Builder, kind: int, *values: Value) -> Value:
    """Writes the product of integer tensors of the same shape and type (below opset 6)."""
    return op.Cast(op.ReduceProd(_stacked(op, values), axes=[0], keepdims=0), to=kind)


def _stacked(op: Builder, values: tuple[Value, ...]) -> Value:
    return op.Concat(*(op.Unsqueeze(value, axes=[0]) for value in values), axis=0)


MOST_ROWS = 8
MOST_ZEROS = 1024  # a larger constant would enlarge the model


def combine_rows(op: Builder, x: Value) -> Value | None:
    """Replaces a sum or product of a few stacked rows by Add or Mul (opset >= 6), else None."""
    reduction = maker(x, "ReduceSum", "ReduceProd")
    if reduction is None or x.elem_type_or_none not in WIDE_INTS or reduction.int("keepdims"):
        return None
    rows = _rows(op, reduction["data"]) if reduction.ints_or_none("axes") == [0] else []
    combine = op.Add if reduction.op == "ReduceSum" else op.Mul
    return functools.reduce(combine, rows) if rows else None


def _rows(op: Builder, stack: Value) -> list[Value]:
    """Returns the value in each row of a stack, or [] if the rows are unknown."""
    if (cast := maker(stack, "Cast")) is not None:
        rows = [op.Cast(row, to=stack.elem_type) for row in _stacked_values(cast["input"])]
    else:
        rows = _stacked_values(stack)
    count = (stack.dims_or_none or (None,))[0]
    if rows or not isinstance(count, int) or count > MOST_ROWS:
        return rows
    return [op.Gather(stack, op.const(i), axis=0) for i in range(count)]


def _stacked_values(stack: Value) -> list[Value]:
    """Returns the values that Unsqueeze and Concat stack, or [] if other nodes compute `stack`."""
    concat = maker(stack, "Concat")
    if concat is None or concat.int("axis") != 0:
        return []
    values = [_unsqueezed(row) for row in concat.inputs]
    return [] if None in values else [value for value in values if value is not None]


def _unsqueezed(row: Value | None) -> Value | None:
    one = maker(row, "Unsqueeze")
    return one.inputs[0] if one and one.ints("axes") == [0] else None


def _difference(op: Builder, a: Value, b: Value, kind: int = T.INT64) -> Value:
    minus = op.const([-1], kind)
    everywhere = op.Gather(minus, _zeros(op, b), axis=0)
    return add_stacked(op, kind, a, multiply_stacked(op, kind, b, everywhere))


def _zeros(op: Builder, like: Value) -> Value:
    """Returns int64 zeros in the shape of a value."""
    shape = like.shape_or_none
    if shape is not None and np.prod(shape) <= MOST_ZEROS:
        return op.const(np.zeros(shape, np.int64))
    return op.Cast(_scaled(op, in_double(op, like), 0.0), to=T.INT64)


def _scaled(op: Builder, x: Value, factor: float) -> Value:
    return op.Mul(x, op.const(factor, T.DOUBLE), broadcast=1)


def _stretched(node: Node, op: Builder, kind: int) -> Value:
    """Broadcasts B to the shape of A as two doubles, because one double cannot represent B."""
    a, b = node["A"], node["B"]
    if not node.int("broadcast"):
        return b
    if b.dims_or_none is not None and set(b.dims) <= {1}:
        one = b if b.rank == 1 else op.Reshape(b, op.const([1]))
        return op.Gather(one, _zeros(op, a), axis=0)
    legacy: dict[str, Any] = {"broadcast": 1}
    if node.has("axis"):
        legacy["axis"] = node.int("axis")
    unit = op.Floor(_scaled(op, in_double(op, b), UNDER_ONE * 2.0**-32))
    half = _scaled(op, unit, 2.0**31)
    high = op.Cast(half, to=kind)
    low = in_double(op, _difference(op, b, add_stacked(op, kind, high, high), kind))
    room = _scaled(op, in_double(op, a), 0.0)
    wide = [op.Cast(op.Add(room, one, **legacy), to=kind) for one in (half, low)]
    return add_stacked(op, kind, wide[0], *wide)


def _quotient(op: Builder, a: Value, b: Value) -> Value:
    """Writes the quotient of int64, rounded towards zero."""
    real_a, real_b = in_double(op, a), in_double(op, b)
    first, second, rest = _most_of_quotient(op, (a, real_a), (b, real_b), T.INT64)
    sign_a, sign_b = _sign(op, real_a), _sign(op, real_b)
    size_of_rest = multiply_stacked(op, T.INT64, rest, op.Cast(sign_a, to=T.INT64))
    size_of_b = multiply_stacked(op, T.INT64, b, op.Cast(sign_b, to=T.INT64))
    short = _difference(op, size_of_rest, size_of_b)
    third = sign_a * sign_b * in_double(op, _not_negative(op, in_double(op, short)))
    return add_stacked(op, T.INT64, first, second, op.Cast(third, to=T.INT64))


def _unsigned_quotient(op: Builder, a: Value, b: Value) -> Value:
    """Writes the quotient of uint64: two partial quotients, and 1 if the rest is at least b."""
    real_a, real_b = in_double(op, a), in_double(op, b)
    first, second, rest = _most_of_quotient(op, (a, real_a), (b, real_b), T.UINT64)
    exact = in_double(op, op.Cast(_difference(op, rest, b, T.UINT64), to=T.INT64))
    rounded = in_double(op, rest) - real_b  # negative if the exact difference wraps around
    third = op.Cast(_not_negative(op, op.Min(exact, rounded)), to=T.UINT64)
    return add_stacked(op, T.UINT64, first, second, third)


Number = tuple[Value, Value]  # a 64-bit integer, and the double nearest to it


def _most_of_quotient(
    op: Builder, dividend: Number, divisor: Number, kind: int
) -> tuple[Value, Value, Value]:
    """Returns two quotients whose sum is nearly dividend / divisor, and the remainder."""
    (a, real_a), (b, real_b) = dividend, divisor
    first = _from_below(op, real_a, real_b, kind)
    rest = _difference(op, a, multiply_stacked(op, kind, first, b), kind)
    second = _from_below(op, in_double(op, rest), real_b, kind)
    return first, second, _difference(op, rest, multiply_stacked(op, kind, second, b), kind)


def _from_below(op: Builder, a: Value, b: Value, kind: int) -> Value:
    return op.Cast(_scaled(op, a / b, UNDER_ONE), to=kind)


def _not_negative(op: Builder, x: Value) -> Value:
    return ~op.Less(x, op.const(0.0, T.DOUBLE), broadcast=1)


def _sign(op: Builder, x: Value) -> Value:
    zero = op.const(0.0, T.DOUBLE)
    above, below = op.Greater(x, zero, broadcast=1), op.Less(x, zero, broadcast=1)
    return in_double(op, above) - in_double(op, below)
