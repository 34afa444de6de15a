# SPDX-License-Identifier: Apache-2.0
"""The remainder of floats, written with operators of opset 9."""

from __future__ import annotations

import math
from dataclasses import dataclass

from opshift.adapter import Array, Builder, T, Value, np

DOUBLE_BITS = 53  # a product that has at most 53 bits is exact in double
MOST_FOLDS = 3


@dataclass(frozen=True)
class Reduction:
    """The factors and divisions with which nodes reduce large numbers to their remainder."""

    rounds: int
    bits: int
    starts: tuple[Array, ...] = ()
    factors: tuple[Array, ...] = ()

    @property
    def nodes(self) -> int:
        return 4 * self.rounds + (2 * len(self.starts) + 2 if self.starts else 0)


def float_remainder(op: Builder, a: Value, b: Value) -> Value:
    """Returns the exact remainder of floats, with the sign of the dividend, computed in double."""
    reduction = _reduction(b, b.elem_type)
    rest, size = (op.Abs(op.Cast(x, to=T.DOUBLE)) for x in (a, b))
    whole = rest
    if reduction.starts:
        rest = rest * op.Cast(_factors(op, rest, reduction), to=T.DOUBLE)
    for turn in reversed(range(reduction.rounds)):
        unit = size * op.const(2.0 ** (reduction.bits * turn), T.DOUBLE) if turn else size
        rest = rest - op.Floor(rest / unit) * unit
    remainder = op.Cast(rest, to=a.elem_type)
    if _are_finite_divisors(b):
        return remainder * op.Sign(op.const(STEEP, like=a) / a)  # also gives a zero its sign
    return op.Where(whole < size, a, remainder * op.Sign(a))


STEEP = 2.0**10  # divided by the largest float of any type, it is not subnormal


def _are_finite_divisors(b: Value) -> bool:
    known = b.const_or_none()
    return known is not None and bool(known.size and np.all(np.isfinite(known) & (known != 0)))


def _reduction(b: Value, kind: int) -> Reduction:
    """Returns the reduction with the fewest nodes that is exact for every dividend of `b`."""
    constant = b.const_or_none()
    if constant is None or not _are_finite_divisors(b):
        limits = T(kind).fraction
        bits = DOUBLE_BITS - limits.bits
        return Reduction(math.ceil((limits.above_all - limits.least) / bits), bits)
    sizes = np.abs(constant.astype(np.float64))
    width = max(_width(float(size)) for size in sizes.ravel())
    if width == 1:
        return Reduction(1, DOUBLE_BITS)  # a quotient by a power of two is exact
    folded = (_folded(sizes, kind, DOUBLE_BITS - width, folds) for folds in range(MOST_FOLDS + 1))
    return min((one for one in folded if one is not None), key=lambda one: one.nodes)


def _width(number: float) -> int:
    """Returns the number of bits between the first and the last 1 in the mantissa of a float."""
    numerator, _ = number.as_integer_ratio()
    return (numerator // (numerator & -numerator)).bit_length()


def _folded(sizes: Array, kind: int, bits: int, folds: int) -> Reduction | None:
    """Returns the reduction with this number of factors, or None if float32 cannot hold them."""
    limits = T(kind).fraction
    lowest = int(np.frexp(sizes)[1].min()) - 1
    kept = limits.bits - 1
    reach = math.ceil((limits.above_all - lowest + kept * folds) / (folds + 1))
    first = np.frexp(sizes)[1] - 1 + reach
    starts = [first + turn * (reach - kept) for turn in range(folds)]
    factors = [np.vectorize(_factor)(sizes, start - kept) for start in starts]
    if any((factor < T.FLOAT.fraction.smallest_normal).any() for factor in factors):
        return None
    return Reduction(
        math.ceil(reach / bits),
        bits,
        tuple(np.ldexp(1.0, start) for start in starts),
        tuple(factor.astype(np.float32) for factor in factors),
    )


def _factor(size: float, exponent: int) -> float:
    """Returns (2**exponent % size) / 2**exponent, a factor that keeps the remainder by `size`."""
    from fractions import Fraction  # which imports decimals, for a rare divisor

    power = Fraction(2) ** int(exponent)
    return float(power % Fraction(size) / power)


def _factors(op: Builder, rest: Value, reduction: Reduction) -> Value:
    """Writes nodes that select the factor of each number; small numbers have the factor 1."""
    ones = np.ones_like(reduction.factors[0])
    factors = op.const(reduction.factors[-1], T.FLOAT)
    for start, below in zip(
        reversed(reduction.starts), reversed((ones, *reduction.factors[:-1])), strict=True
    ):
        factors = op.Where(rest < op.const(start, T.DOUBLE), op.const(below, T.FLOAT), factors)
    return factors
