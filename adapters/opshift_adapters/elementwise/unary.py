# SPDX-License-Identifier: Apache-2.0
"""Abs, Exp, Sqrt, Round, IsNaN and other mathematical operators with one input."""

from opshift.adapter import (
    KEEP,
    Builder,
    Node,
    Result,
    T,
    Value,
    adapter,
    alternative,
    boundary,
    in_other_words,
    np,
)
from opshift.combinators import cast_around, drop_attribute

from opshift_adapters._lib.kinds import FLOATS, UNSIGNED, as_type, not_nan
from opshift_adapters._lib.wide_integers import multiply_stacked

WITHOUT_CONSUMED = drop_attribute("consumed_inputs")
MATH_6 = boundary(
    6,
    "Ceil:b70fea Exp:f83680 Floor:01fdd9 Log:ab9f59 Reciprocal:b05bb6 Sigmoid:1146b9 "
    "Sqrt:887227 Tanh:97bed0",
    up=WITHOUT_CONSUMED,
)


def abs_6_5(node: Node, op: Builder) -> Result:
    """Opset 6 added integers to Abs; below opset 6, ReduceProd multiplies x by 1 or -1."""
    x = node["X"]
    return op.Identity(x) if x.elem_type in UNSIGNED else _flipped(op, x, below=0)


def neg_6_5(node: Node, op: Builder) -> Result:
    """Opset 6 added integers to Neg; below opset 6, ReduceProd multiplies x by -1."""
    return _flipped(op, node["X"], below=np.inf)


def _flipped(op: Builder, x: Value, below: float) -> Value:
    """Writes -x for elements that are less than `below`, and x for the other elements."""
    wide = x.elem_type if x.elem_type in (T.INT32, T.INT64) else T.INT32
    flip = op.Less(op.Cast(x, to="FLOAT"), op.const(below, T.FLOAT), broadcast=1)
    sign = op.Cast(~flip, to="FLOAT") - op.Cast(flip, to="FLOAT")
    product = multiply_stacked(op, wide, _as(op, x, wide), _as(op, sign, wide))
    return product if wide == x.elem_type else _as(op, product, x.elem_type)


def _as(op: Builder, x: Value, elem_type: int) -> Value:
    """Writes Cast below opset 6, whose `to` is the name of the element type."""
    return op.Cast(x, to=T(elem_type).name)


ABS_6 = boundary(6, "Abs:e06ecc", up=WITHOUT_CONSUMED, cast=abs_6_5)
NEG_6 = boundary(6, "Neg:08394b", up=WITHOUT_CONSUMED, cast=neg_6_5)


@adapter("Sign", 9, 8, in_other_words=True)
def sign_9_8(node: Node, op: Builder) -> Result:
    """Opset 9 added Sign; below opset 9, (x > 0) - (x < 0) is written, and NaN stays NaN."""
    x = node["input"]
    kind = x.elem_type if x.elem_type in FLOATS else T.FLOAT
    real = as_type(op, x, kind)  # the Cast keeps every sign
    zero = op.const(0, kind)
    positive = real > zero
    sign = op.Cast(positive, to=kind) - op.Cast(real < zero, to=kind)
    if kind != x.elem_type:
        return op.Cast(sign, to=x.elem_type)
    number = positive | (real < op.const(1, kind))
    return sign / op.Cast(number, to=kind)


@adapter("IsNaN", 9, 8, in_other_words=True)
def is_nan_9_8(node: Node, op: Builder) -> Result:
    """Opset 9 added IsNaN; below opset 9, Not(x > 0 or x < 1) is written."""
    return ~not_nan(op, node["X"])


@adapter("IsInf", 10, 9, in_other_words=True)
def is_inf_10_9(node: Node, op: Builder) -> Result:
    """Opset 10 added IsInf; below opset 10, x is compared with the largest finite number."""
    x = node["X"]
    positive, negative = node.int("detect_positive"), node.int("detect_negative")
    if not positive and not negative:
        zero = op.const(0, like=x)
        return (x > zero) & (x < zero)
    largest = T(x.elem_type).fraction.largest
    if not positive:
        return x < op.const(-largest, like=x)
    return (op.Abs(x) if negative else x) > op.const(largest, like=x)


@adapter("Round", 11, 10, in_other_words=True, mirrored=True)
def round_11_10(node: Node, op: Builder) -> Result:
    """Below opset 11, Round is written as Ceil(x), or Ceil(x) - 1 if that is nearer to x."""
    x = node["X"]
    return (
        _round_in_float(op, x) if x.elem_type in (T.FLOAT16, T.BFLOAT16) else _round_halves(op, x)
    )


def _round_in_float(op: Builder, x: Value) -> Value:
    """Writes Round of float16 as Ceil, minus 1 if the rounded number is smaller than Ceil.

    Adding a large float rounds halves to the even number. For float, this would need double, for
    which onnxruntime 0.4 has neither Add nor Less.
    """
    whole = op.const(3 * 2.0**22, T.FLOAT)
    above = op.Ceil(x)
    nearest, highest = (op.Cast(value, to=T.FLOAT) + whole for value in (x, above))
    return above - op.Cast(nearest < highest, to=x.elem_type)


def _round_halves(op: Builder, x: Value) -> Value:
    """Writes Ceil(x), minus 1 if that is nearer to x; a half is rounded to the even integer.

    If Ceil(x) is odd, a distance of just below one half is rounded down, too.
    """
    half = op.const(0.5, like=x)
    step = op.const(T(x.elem_type).fraction.below_one, like=x)
    above = op.Ceil(x)
    halves = above * half
    odd = halves - op.Floor(halves)  # 0.5 if Ceil(x) is odd, else 0
    return above - op.Cast(above - x > half - odd * step, to=x.elem_type)


@alternative("Neg", runtime="onnxruntime==0.4")
def times_minus_one(node: Node, op: Builder) -> Result:
    """Neg is written as x * -1, which is exact."""
    if op.version < 7:  # Mul broadcasts only from opset 7 on
        return KEEP  # pragma: no cover: only a runtime of the caller asks for this form
    return node["X"] * -1


MATH_13 = boundary(
    13,
    "Abs:bca7a5 Ceil:3d6cff Exp:96ddb1 Floor:0e9e0e IsNaN:cbe16b Log:a5ad3b Neg:a5f736 "
    "Reciprocal:1f5cfe Sigmoid:519d06 Sign:17e450 Sqrt:ac76d4 Tanh:7ca8ed",
)
AS_FLOAT = cast_around("float")
MATH_20 = boundary(20, "IsInf:4c7d49 IsNaN:e7e615", cast=AS_FLOAT)
ROUND_22 = boundary(22, "Round:753fed", cast=AS_FLOAT)


@in_other_words("Abs")
def larger_of_both_signs(node: Node, op: Builder) -> Result:
    """Abs is written as Max(x, -x) + 0; adding 0 makes -0 positive."""
    x = node["X"]
    if x.elem_type in UNSIGNED:
        return op.Identity(x)
    larger: Value = op.Max(x, -x)
    return larger + op.const(0, like=x) if x.elem_type in FLOATS else larger


@in_other_words("Reciprocal")
def one_by(node: Node, op: Builder) -> Result:
    """Reciprocal is written as the Div 1 / x."""
    return op.const(1, like=node["X"]) / node["X"]


@in_other_words("Ceil Floor")
def from_the_other_side(node: Node, op: Builder) -> Result:
    """Ceil is written as -Floor(-x), and Floor as -Ceil(-x)."""
    opposite = "Floor" if node.op == "Ceil" else "Ceil"
    rounded: Value = op.emit(opposite, -node["X"])
    return -rounded


@in_other_words("Sigmoid")
def by_exponent(node: Node, op: Builder) -> Result:
    """Sigmoid is written as 1 / (1 + Exp(-x))."""
    x = node["X"]
    return op.Reciprocal(op.Exp(-x) + op.const(1, like=x))
