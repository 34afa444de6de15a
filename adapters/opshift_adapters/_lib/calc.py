# SPDX-License-Identifier: Apache-2.0
"""Arithmetic that is done while converting where all of it is known, and written as nodes elsewhere."""

from typing import Any

from opshift.adapter import Builder, T, Value, np

CALC = (
    "Add", "Sub", "Mul", "Div", "Floor", "Ceil", "Max", "Min", "Less", "Greater", "Or", "Not",
    "Where", "Cast",
)  # fmt: skip
NUMPY = {
    "Add": "add", "Sub": "subtract", "Mul": "multiply", "Div": "divide", "Floor": "floor",
    "Ceil": "ceil", "Max": "maximum", "Min": "minimum", "Less": "less", "Greater": "greater",
    "Or": "logical_or", "Not": "logical_not", "Where": "where",
}  # fmt: skip
DTYPES: dict[int, Any] = {T.FLOAT: "float32", T.DOUBLE: "float64", T.INT64: "int64"}


def calc(op: Builder, name: str, *values: Value) -> Value:
    known = [value.const_or_none() for value in values]
    if any(one is None for one in known):
        made: Value = getattr(op, name)(*values)
        return made
    with np.errstate(all="ignore"):
        return op.const(np.asarray(getattr(np, NUMPY[name])(*known)))


def calc_cast(op: Builder, x: Value, to: int) -> Value:
    known = x.const_or_none()
    if known is None:
        return op.Cast(x, to=to)
    with np.errstate(all="ignore"):
        return op.const(known.astype(DTYPES[to]))


def element(op: Builder, vector: Value, at: int) -> Value:
    """`vector[at]` as a scalar."""
    known = vector.const_or_none()
    if known is not None:
        return op.const(np.asarray(known[at]))
    return op.Gather(vector, op.const(at), axis=0)


def column(op: Builder, vector: Value, rank: int, axis: int) -> Value:
    """A vector that lies along one axis of a tensor."""
    shape = [-1] + [1] * (rank - axis - 1)
    known = vector.const_or_none()
    return op.const(known.reshape(shape)) if known is not None else op.Reshape(vector, op.const(shape))
