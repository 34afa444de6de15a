# SPDX-License-Identifier: Apache-2.0
"""Sums and products of integers without Reduce operators, which some runtimes compute in double."""

from opshift.adapter import Builder, T, Value

from opshift_adapters._lib.blocks import part, times_vector
from opshift_adapters._lib.kinds import UNSIGNED, as_type


def multiply_matrices(op: Builder, a: Value, b: Value) -> Value:
    """Writes MatMul of 32- or 64-bit integers as products of digits in double (opset 7 and 8)."""
    kind = a.elem_type
    length = (a.dims_or_none or (None,))[-1]
    bits = 16 if isinstance(length, int) and length < 2**21 else 11
    count = -(-(32 if kind in (T.INT32, T.UINT32) else 64) // bits)
    left, right = (_digits(op, x, bits, count) for x in (a, b))
    total = None
    for weight in reversed(range(count)):
        products = [op.MatMul(left[i], right[weight - i]) for i in range(weight + 1)]
        if total is not None:
            total = total * op.const(2**bits)
        for product in products:
            part = op.Cast(product, to=T.INT64)
            total = part if total is None else total + part
    assert total is not None
    if not length or not isinstance(length, int):
        total = total * _one_unless_empty(op, a)
    return as_type(op, total, kind)


def _digits(op: Builder, x: Value, bits: int, count: int) -> list[Value]:
    """Splits integers into signed digits in double, lowest first; their products sum exactly."""
    remainder = as_type(op, x, T.INT64)
    base, digits = op.const(2**bits), []
    for _ in range(count - 1):
        above = remainder / base
        digits.append(op.Cast(remainder - above * base, to=T.DOUBLE))
        remainder = above
    return [*digits, op.Cast(remainder, to=T.DOUBLE)]


def _one_unless_empty(op: Builder, a: Value) -> Value:
    """Returns 1, or 0 if rows are empty, because runtimes do not set a product of empty rows."""
    length = op.Gather(op.Shape(a), op.const(a.rank - 1), axis=0)
    return op.Cast(~op.Equal(length, op.const(0)), to=T.INT64)


def sum_last_axis(op: Builder, x: Value) -> Value:
    """Returns the sum of integers over their last axis (opset 9 and later)."""
    kind, length = x.elem_type, (x.dims_or_none or (None,))[-1]
    wide = as_type(op, x, T.INT64)
    if isinstance(length, int):
        ones = op.const([1] * length)
    else:
        ones = op.Expand(op.const(1), part(op, op.Shape(x), -1))
    return as_type(op, times_vector(op, wide, ones), kind)


def wrapped(op: Builder, x: Value, kind: int) -> Value:
    """Reduces an int64 to the low bits of a narrower integer type (opset 10 and later)."""
    # A Cast has the same effect, but some runtimes merge two Casts in a row.
    size = op.const(2 ** T(kind).element.bits)
    if kind in UNSIGNED:
        return op.Mod(x, size)
    half = op.const(2 ** (T(kind).element.bits - 1))
    return op.Mod(x + half, size) - half
