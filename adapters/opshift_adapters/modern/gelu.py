# SPDX-License-Identifier: Apache-2.0
"""Gelu with Tanh as exporters write it: they round the root once, and the adapter twice."""

from math import pi, sqrt

from opshift.adapter import Formula, Term, example, modern

TANH = (
    "(float[2,3] x) => (float[2,3] y) <float three = {3}, float c = {0.044715}, float r ="
    " {0.7978846}, float one = {1}, float half = {0.5}> { p = Pow(x, three) q = Mul(c, p) s ="
    " Add(x, q) i = Mul(r, s) t = Tanh(i) u = Add(one, t) h = Mul(half, x) y = Mul(h, u) }"
)


@modern("Gelu", since=20, attributes={"approximate": "tanh"})
@example("a power", TANH, gives="Gelu")
def by_tanh(op: Formula, x: Term) -> Term:
    """x / 2 * (1 + Tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))."""
    cubic = sqrt(2 / pi) * (x + 0.044715 * (x * x * x))
    product = sqrt(2 / pi) * x * (0.044715 * (x * x) + 1)
    return 0.5 * x * (op.Tanh(op.either(cubic, product)) + 1)
