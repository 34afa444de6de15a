# SPDX-License-Identifier: Apache-2.0
"""Conversion of tensors for operators that accept only floats (below opset 6)."""

from collections.abc import Callable, Sequence

from opshift.adapter import Builder, Refusal, T, Value, Why

from opshift_adapters._lib.kinds import FLOATS, SMALL_INTS, held_by_double
from opshift_adapters._lib.wide_integers import add_rows

HALF = 2.0**32


Move = Callable[[list[Value], int], Value]


def moved(op: Builder, values: Sequence[Value], move: Move) -> Value:
    """Applies `move`, which accepts floats of one type, to values of any element type."""
    typed = next((v for v in values if v.elem_type_or_none is not None), values[0])
    kind = typed.elem_type
    if kind in FLOATS:
        return move(list(values), kind)
    if kind in (T.INT64, T.UINT64) and not all(held_by_double(value) for value in values):
        halves = [_halves(op, value) for value in values]
        high, low = (move(list(side), T.DOUBLE) for side in zip(*halves, strict=True))
        return _together(op, high, low, kind)
    through = _holder(op, typed)
    return op.Cast(move([_held(op, value, through) for value in values], through), to=kind)


def _holder(op: Builder, x: Value) -> int:
    """Returns a float type that represents all values of the element type of `x` exactly."""
    kind = x.elem_type
    if kind in (T.BOOL, *SMALL_INTS):
        return T.FLOAT
    if kind in (T.INT32, T.UINT32, T.INT64, T.UINT64):
        return T.DOUBLE
    raise Refusal(
        Why.TYPE_NOT_AVAILABLE,
        "this operator accepts only floating-point tensors before opset"
        f" {op.version + 1}, and no float type represents the element type of {x.name!r}",
    )


def _held(op: Builder, x: Value, kind: int) -> Value:
    constant = x.const_or_none()
    return op.Cast(x, to=kind) if constant is None else op.const(constant, kind)


def _halves(op: Builder, x: Value) -> tuple[Value, Value]:
    """Splits `x` into its lower 32 bits and the rest: two doubles whose sum is `x`.

    A Cast to uint32 keeps the lower 32 bits. The upper part is rounded to a multiple of 2**32.
    """
    low = op.Cast(op.Cast(x, to=T.UINT32), to=T.DOUBLE)
    units = _by(op, op.Mul, op.Cast(x, to=T.DOUBLE) - low, 1 / HALF)
    return _by(op, op.Mul, op.Floor(_by(op, op.Add, units, 0.5)), HALF), low


def _by(op: Builder, operator: Callable[..., Value], x: Value, number: float) -> Value:
    return operator(x, op.const(number, T.DOUBLE), broadcast=1)


def _together(op: Builder, high: Value, low: Value, kind: int) -> Value:
    """Returns the sum of two doubles as a 64-bit integer (below opset 6)."""
    both = op.Concat(op.Unsqueeze(high, axes=[0]), op.Unsqueeze(low, axes=[0]), axis=0)
    return add_rows(op, kind, op.Cast(both, to=kind))
