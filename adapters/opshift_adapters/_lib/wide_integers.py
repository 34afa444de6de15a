"""64-bit integers below 6, where ReduceSum and ReduceProd alone added and multiplied them."""

from typing import Any

from opshift.adapter import Builder, Node, Refusal, T, Value, Why

from opshift_adapters._lib.blocks import cast

WIDE = ("Unsqueeze", "Concat", "ReduceSum", "ReduceProd", "Gather", "Cast", "Less", "Greater", "Not")
UNDER_ONE = 1 - 2.0**-50  # what rounds up in a double stays below by it


def wide_arithmetic(node: Node, op: Builder) -> Value:
    """Add, Sub, Mul or Div of int64 or uint64, which wrap around as they always did."""
    a, kind = node["A"], node["A"].elem_type
    if node.op == "Div" and kind == T.UINT64:
        raise Refusal(Why.TYPE_NOT_AVAILABLE, "dividing unsigned 64-bit integers needs opset 6")
    b = _stretched(node, op, kind)
    if node.op == "Add":
        return _sum(op, a, b)
    if node.op == "Sub":
        return _difference(op, a, b, kind)
    return _product(op, a, b) if node.op == "Mul" else _quotient(op, a, b)


def _stacked(op: Builder, values: tuple[Value, ...]) -> Value:
    return op.Concat(*(op.Unsqueeze(value, axes=[0]) for value in values), axis=0)


def _sum(op: Builder, *values: Value) -> Value:
    return op.ReduceSum(_stacked(op, values), axes=[0], keepdims=0)


def _product(op: Builder, *values: Value) -> Value:
    return op.ReduceProd(_stacked(op, values), axes=[0], keepdims=0)


def _difference(op: Builder, a: Value, b: Value, kind: int = T.INT64) -> Value:
    minus = op.const([-1 if kind == T.INT64 else 2**64 - 1], kind)
    everywhere = op.Gather(minus, cast(op, _scaled(op, _double(op, b), 0.0), T.INT64), axis=0)
    return _sum(op, a, _product(op, b, everywhere))


def _double(op: Builder, x: Value) -> Value:
    return cast(op, x, T.DOUBLE)


def _scaled(op: Builder, x: Value, factor: float) -> Value:
    return op.Mul(x, op.const(factor, T.DOUBLE), broadcast=1)


def _stretched(node: Node, op: Builder, kind: int) -> Value:
    """The second operand in the shape of the first: its two halves fit into doubles, which stretch."""
    a, b = node["A"], node["B"]
    if not node.int("broadcast"):
        return b
    legacy: dict[str, Any] = {"broadcast": 1}
    if node.has("axis"):
        legacy["axis"] = node.int("axis")
    unit = op.Floor(_scaled(op, _double(op, b), UNDER_ONE * 2.0**-32))
    half = _scaled(op, unit, 2.0**31)
    high = cast(op, half, kind)
    low = _double(op, _difference(op, b, _sum(op, high, high), kind))
    room = _scaled(op, _double(op, a), 0.0)
    wide = [cast(op, op.Add(room, one, **legacy), kind) for one in (half, low)]
    return _sum(op, wide[0], *wide)


def _quotient(op: Builder, a: Value, b: Value) -> Value:
    """a / b towards zero: twice a quotient in double from below, then one more if one fits."""
    real_a, real_b = _double(op, a), _double(op, b)
    first = _from_below(op, real_a, real_b)
    rest = _difference(op, a, _product(op, first, b))
    second = _from_below(op, _double(op, rest), real_b)
    rest = _difference(op, rest, _product(op, second, b))
    sign_a, sign_b = _sign(op, real_a), _sign(op, real_b)
    size_of_rest = _product(op, rest, cast(op, sign_a, T.INT64))
    short = _difference(op, size_of_rest, _product(op, b, cast(op, sign_b, T.INT64)))
    fits = op.Not(op.Less(_double(op, short), op.const(0.0, T.DOUBLE), broadcast=1))
    third = op.Mul(op.Mul(sign_a, sign_b), _double(op, fits))
    return _sum(op, first, second, cast(op, third, T.INT64))


def _from_below(op: Builder, a: Value, b: Value) -> Value:
    return cast(op, _scaled(op, op.Div(a, b), UNDER_ONE), T.INT64)


def _sign(op: Builder, x: Value) -> Value:
    zero = op.const(0.0, T.DOUBLE)
    above, below = op.Greater(x, zero, broadcast=1), op.Less(x, zero, broadcast=1)
    return op.Sub(_double(op, above), _double(op, below))
