# SPDX-License-Identifier: Apache-2.0
"""Gelu from its formula with Erf or with Tanh."""

from math import pi

from opshift.adapter import Formula, Term, example, modern

EXACT = "(float[2,3] x) => (float[2,3] y) <float two = {2}, float one = {1}, float half = {0.5}> "


@modern("Gelu", since=20)
@example(
    "as torch writes it",
    EXACT
    + "{ r = Sqrt(two) d = Div(x, r) e = Erf(d) a = Add(e, one) m = Mul(x, a) y = Mul(m, half) }",
    gives="Gelu",
)
@example(
    "in another order",
    EXACT
    + "{ r = Sqrt(two) d = Div(x, r) e = Erf(d) a = Add(one, e) h = Mul(half, a) y = Mul(h, x) }",
    gives="Gelu",
)
def by_error_function(op: Formula, x: Term) -> Term:
    """x / 2 * (1 + Erf(x / sqrt(2)))."""
    return 0.5 * x * (op.Erf(x / op.root(2)) + 1)


TANH = (
    "(float[2,3] x) => (float[2,3] y) <float three = {3}, float c = {0.044715}, float r ="
    " {0.7978846}, float one = {1}, float half = {0.5}> "
)


@modern("Gelu", since=20, attributes={"approximate": "tanh"})
@example(
    "a power",
    TANH + "{ p = Pow(x, three) q = Mul(c, p) s = Add(x, q) i = Mul(r, s) t = Tanh(i) u ="
    " Add(one, t) h = Mul(half, x) y = Mul(h, u) }",
    gives="Gelu",
)
@example(
    "products",
    TANH + "{ p = Mul(x, x) p3 = Mul(p, x) q = Mul(c, p3) s = Add(x, q) i = Mul(r, s) t ="
    " Tanh(i) u = Add(one, t) h = Mul(half, x) y = Mul(h, u) }",
    gives="Gelu",
)
def by_tanh(op: Formula, x: Term) -> Term:
    """x / 2 * (1 + Tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))."""
    root = op.root(2 / pi)
    cubic = root * (x + 0.044715 * (x * x * x))
    product = root * x * (0.044715 * (x * x) + 1)
    return 0.5 * x * (op.Tanh(op.either(cubic, product)) + 1)
