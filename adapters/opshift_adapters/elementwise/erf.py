# SPDX-License-Identifier: Apache-2.0
"""Erf: the error function."""

from opshift.adapter import KEEP, Builder, Node, Result, T, Value, adapter, boundary

from opshift_adapters._lib.kinds import FLOATS, as_type, not_nan

# Coefficients of polynomials in x*x. ABOVE / BELOW is erf(x) / x, relative error below 9e-12
# for |x| <= 4.
ABOVE, BELOW = zip(
    (1.128379167086793, 1.0),
    (0.20018190748002146, 0.5107399293215366),
    (0.05809199025867835, 0.12172933257961303),
    (0.0049543268091999165, 0.017702620758625266),
    (0.000512487400027933, 0.0017129871414253233),
    (2.172986992063951e-05, 0.00011132374103577891),
    (7.519845838733505e-07, 4.509167297810264e-06),
    (3.0065555892207223e-09, 7.329077336592791e-08),
    strict=True,
)
ONE_FROM = 4.0  # from 4 on, erf(x) rounds to 1 in float32


@adapter("Erf", 9, 8, approximate=True, in_other_words=True)
def erf_9_8(node: Node, op: Builder) -> Result:
    """Below opset 9, Erf is a quotient of polynomials in double, rounded to the type."""
    x = node["input"]
    if x.elem_type == T.DOUBLE:
        op.approximate(
            "Erf of double is written as a quotient with an error of up to 1e-11, and 1 for x > 4"
        )
    real = x if x.elem_type == T.DOUBLE else as_type(op, x, T.FLOAT)
    near = op.Cast(op.Clip(real, min=-ONE_FROM, max=ONE_FROM), to=T.DOUBLE)
    square = near * near
    ratio = _polynomial(op, square, ABOVE) / _polynomial(op, square, BELOW)
    number = op.Cast(not_nan(op, real), to=T.DOUBLE)
    result = near * ratio * (number / number)  # restores NaN, which Clip may lose
    if x.elem_type not in FLOATS:
        # The Cast to float rounds before the next Cast truncates. Some runtimes merge two Casts
        # in a row, so Clip separates them.
        result = op.Clip(op.Cast(result, to=T.FLOAT), min=-1.0, max=1.0)
    return op.Cast(result, to=x.elem_type)


def _polynomial(op: Builder, x: Value, factors: tuple[float, ...]) -> Value:
    *rest, last = (op.const(factor, T.DOUBLE) for factor in factors)
    total = x * last
    for factor in reversed(rest[1:]):
        total = (total + factor) * x
    return total + rest[0]


ERF_13 = boundary(13, "Erf:bd89e1/0a3472", directions="down")


@adapter("Erf", 12, 13, handles_types=True)
def erf_12_13(node: Node, op: Builder) -> Result:
    """Opset 13 removed integers from Erf; they are cast to float, and the result is truncated."""
    x = node["input"]
    if x.elem_type in FLOATS:
        return KEEP
    return op.Cast(op.same(node, inputs={"input": op.Cast(x, to=T.FLOAT)}), to=x.elem_type)
