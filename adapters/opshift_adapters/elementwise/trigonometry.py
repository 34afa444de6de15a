# SPDX-License-Identifier: Apache-2.0
"""Sin, Cos, Tan, Sinh, Cosh and their inverses."""

import math

from opshift.adapter import (
    Builder,
    Node,
    Result,
    T,
    Value,
    adapter,
    boundary,
    impossible,
    in_other_words,
    np,
)
from opshift.combinators import cast_around

from opshift_adapters._lib.kinds import as_type, in_double

REASON = "no trigonometric operator exists before opset 7"
CASES = [("any", "(float[2] x) => (float[2] y) { y = {op}(x) }")]
TRIG_7 = impossible("Acos Asin Atan Cos Sin Tan", 7, 6, REASON, cases=CASES)


def _number(op: Builder, value: float) -> Value:
    return op.const(value, T.DOUBLE)


def _cosh(op: Builder, x: Value) -> Value:
    """Writes e^x / 2 + e^-x / 2, in which each half overflows only if its exact value does."""
    half = _number(op, 0.5)
    root = op.Exp(x * half)
    growing = root * half * root
    return growing + op.Reciprocal(root) * half / root


@adapter("Cosh", 9, 8, in_other_words=True)
def cosh_9_8(node: Node, op: Builder) -> Result:
    """Opset 9 added Cosh; below opset 9, (e^x + e^-x) / 2 is written."""
    x = node["input"]
    return as_type(op, _cosh(op, in_double(op, x)), x.elem_type)


@adapter("Sinh", 9, 8, in_other_words=True)
def sinh_9_8(node: Node, op: Builder) -> Result:
    """Below opset 9, Sinh is written as Tanh(x) * Cosh(x), which is accurate for small x."""
    x = node["input"]
    wide = in_double(op, x)
    return as_type(op, op.Tanh(wide) * _cosh(op, wide), x.elem_type)


def _log1p(op: Builder, y: Value) -> Value:
    """Writes log(1 + y) in full precision for y > -1; a factor corrects the rounding of 1 + y."""
    one = _number(op, 1)
    finite = op.Min(y, _number(op, 1e30))
    added = finite + one - one
    nothing = op.Cast(~op.Cast(added, to=T.BOOL), to=T.DOUBLE)
    log = op.Log(y + one) + nothing
    return log * (finite / (added + nothing))


def _odd(op: Builder, x: Value, result: Value) -> Value:
    """Extends a result for |x| to an odd function of x, which keeps -0."""
    signed = x + op.Reciprocal(x)
    negative = op.Cast(signed < _number(op, 0), to=T.DOUBLE)
    return result * (negative * _number(op, -2) + _number(op, 1))


@adapter("Asinh", 9, 8, in_other_words=True)
def asinh_9_8(node: Node, op: Builder) -> Result:
    """Opset 9 added Asinh; below opset 9, log(|x| + sqrt(x^2 + 1)) is written in a stable form."""
    x = node["input"]
    wide = in_double(op, x)
    one, size = _number(op, 1), op.Abs(wide)
    r = op.Reciprocal(size)
    root = op.Sqrt(r * r + one)
    rest = op.Reciprocal((root + r) * (r + one))
    return as_type(op, _odd(op, wide, _log1p(op, size) + _log1p(op, rest)), x.elem_type)


@adapter("Acosh", 9, 8, in_other_words=True)
def acosh_9_8(node: Node, op: Builder) -> Result:
    """Opset 9 added Acosh; below opset 9, log(x + sqrt(x^2 - 1)) is written in a stable form."""
    x = node["input"]
    above = in_double(op, x) - _number(op, 1)
    finite = op.Min(above, _number(op, 1e30))
    root = op.Sqrt(finite) * op.Sqrt(finite + _number(op, 2))
    rest = root / (finite + _number(op, 1))
    return as_type(op, _log1p(op, above) + _log1p(op, rest), x.elem_type)


@adapter("Atanh", 9, 8, in_other_words=True)
def atanh_9_8(node: Node, op: Builder) -> Result:
    """Opset 9 added Atanh; below opset 9, log(1 + 2x / (1 - x)) / 2 is written."""
    x = node["input"]
    wide = in_double(op, x)
    size = op.Abs(wide)
    ratio = (size + size) / (size * _number(op, -1) + _number(op, 1))
    return as_type(op, _odd(op, wide, _log1p(op, ratio) * _number(op, 0.5)), x.elem_type)


TRIGONOMETRY_22 = boundary(
    22,
    "Acos:d30a43 Acosh:93e830 Asin:a2692b Asinh:eb8ac1 Atan:78b91c Atanh:93bc25 Cos:8ace6e "
    "Cosh:f04f02 Sin:d3801a Sinh:340a1c Tan:b72354",
    cast=cast_around("float"),
)


@in_other_words("Tan")
def quotient_of_waves(node: Node, op: Builder) -> Result:
    """Tan is written as Sin(x) / Cos(x)."""
    return op.Sin(node["input"]) / op.Cos(node["input"])


@in_other_words("Asin")
def angle_of_sine(node: Node, op: Builder) -> Result:
    """Asin is written as Atan(x / Sqrt((1 - x) (1 + x)))."""
    x, one = node["input"], op.const(1, like=node["input"])
    return op.Atan(x / op.Sqrt((one - x) * (one + x)))


@in_other_words("Acos")
def angle_of_cosine(node: Node, op: Builder) -> Result:
    """Acos is written as 2 Atan(Sqrt((1 - x) / (1 + x)))."""
    x, one = node["input"], op.const(1, like=node["input"])
    return op.Atan(op.Sqrt((one - x) / (one + x))) * 2


@in_other_words("Atan", approximate=True)
def angle_by_series(node: Node, op: Builder) -> Result:
    """Atan is written as a power series of half the angle of min(|x|, 1 / |x|)."""
    op.approximate("Atan is written as a series, so the last digit may differ")
    x = node["input"]
    one, size = op.const(1, like=x), op.Abs(x)
    small = op.Min(size, one / size)
    half = small / (one + op.Sqrt(one + small * small))
    angle = _odd_series(op, half, [(-1) ** k / (2 * k + 1) for k in range(9)]) * 2
    return op.Where(size > one, op.const(np.pi / 2, like=x) - angle, angle) * op.Sign(x)


@in_other_words("Cos")
def cosine_of_half_an_angle(node: Node, op: Builder) -> Result:
    """Cos is written as 1 - 2 Sin(x / 2)^2."""
    sine = op.Sin(node["input"] * 0.5)
    return sine * sine * -2 + 1


@in_other_words("Sin", approximate=True)
def sine_by_series(node: Node, op: Builder) -> Result:
    """Sin is written as a power series of the distance to the nearest multiple of pi."""
    op.approximate("Sin is written as a series, whose error grows with the distance from 0")
    x = node["input"]
    whole = op.Floor(x * (1 / np.pi) + 0.5)
    for part in PARTS_OF_PI:
        x = x - whole * part
    series = _odd_series(op, x, [(-1) ** k / math.factorial(2 * k + 1) for k in range(8)])
    odd = whole - op.Floor(whole * 0.5) * 2
    return series * (odd * -2 + 1)


# The first two parts times integers up to some thousands are exact in float.
PARTS_OF_PI = (3.140625, 9.67502593994140625e-4, 1.509957990978376e-7)


def _odd_series(op: Builder, x: Value, factors: list[float]) -> Value:
    """Writes x (f0 + f1 x^2 + f2 x^4 ...)."""
    square, *rest = x * x, *reversed(factors)
    total = square * rest[0] + rest[1]
    for factor in rest[2:]:
        total = total * square + factor
    return x * total
