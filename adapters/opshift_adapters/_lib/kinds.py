# SPDX-License-Identifier: Apache-2.0
"""Sets of element types, and Casts of values to other element types."""

from opshift.adapter import Array, Builder, T, Value, dtype_of, np

WIDE_FLOATS = (T.FLOAT, T.DOUBLE)
FLOATS = (*WIDE_FLOATS, T.FLOAT16, T.BFLOAT16)
SMALL_INTS = (T.INT8, T.UINT8, T.INT16, T.UINT16)
WIDE_INTS = (T.INT32, T.UINT32, T.INT64, T.UINT64)
INTS = SMALL_INTS + WIDE_INTS
UNSIGNED = (T.UINT8, T.UINT16, T.UINT32, T.UINT64)
EXACT_IN_FLOAT = 2**24  # float represents every integer up to this number exactly
EXACT = 2**53  # double represents every integer up to this number exactly


def fits_float(values: Array) -> bool:
    """Returns whether float32 represents these numbers exactly."""
    with np.errstate(over="ignore"):
        rounded = values.astype(np.float32).astype(values.dtype)
    return np.array_equal(rounded, values, equal_nan=True)


def as_type(op: Builder, x: Value, kind: int) -> Value:
    """Returns `x` cast to an element type, or `x` itself if it has that type."""
    return x if x.elem_type_or_none == kind else op.Cast(x, to=kind)


def in_double(op: Builder, x: Value) -> Value:
    """Returns `x` cast to double."""
    return as_type(op, x, T.DOUBLE)


def cast_over(op: Builder, x: Value, between: int, kind: int) -> Value:
    """Returns `x` rounded to one element type and cast to another.

    onnxruntime 1.6 to 1.16 merge two Casts and skip the rounding, so a Reshape separates them.
    """
    first = as_type(op, x, between)
    lost = between not in (x.elem_type, kind) and _size(between) <= _size(x.elem_type)
    return as_type(op, parted(op, first) if lost else first, kind)


def _size(kind: int) -> int:
    return dtype_of(kind).itemsize


def parted(op: Builder, x: Value) -> Value:
    """Returns `x` after a Reshape to its own shape; runtimes merge no nodes across it."""
    shape = op.Shape(x) if x.rank_or_none is None else op.const([0] * x.rank)
    return op.Reshape(x, shape)


def held_by_double(x: Value) -> bool:
    """Returns whether double is known to represent all integers of `x` exactly."""
    bounds = x.bounds_or_none
    return bounds is not None and bounds.lowest > -EXACT and bounds.highest < EXACT


def not_nan(op: Builder, x: Value) -> Value:
    """Returns whether each element is not NaN."""
    zero, one = op.const(0, like=x), op.const(1, like=x)
    return (x > zero) | (x < one)


def neighbours(op: Builder, x: Value) -> tuple[Value, Value] | None:
    """Returns the floats next to constant floats, or None if one is subnormal (often read as 0)."""
    known, kind = x.const_or_none(), x.elem_type_or_none
    if known is None or kind not in (T.FLOAT, T.DOUBLE, T.FLOAT16) or not np.isfinite(known).all():
        return None
    both = [np.nextafter(known, known.dtype.type(end)) for end in (-np.inf, np.inf)]
    if any((np.abs(neighbour) < T(kind).fraction.smallest_normal).any() for neighbour in both):
        return None
    return op.const(both[0], kind), op.const(both[1], kind)
