# SPDX-License-Identifier: Apache-2.0
"""Celu from Relu and Elu."""

from opshift.adapter import Formula, Term, example, modern


@modern("Celu", since=12)
@example(
    "of Elu",
    "(float[2,3] x) => (float[2,3] y) <float a = {0.25}> { n = Neg(x) r = Relu(n) m = Neg(r) d ="
    " Div(m, a) e = Elu(d) b = Mul(e, a) p = Relu(x) y = Add(p, b) }",
    gives="Celu",
    atol=1e-6,
)
def celu(op: Formula, x: Term) -> Term:
    """Relu(x) + alpha * Elu(-Relu(-x) / alpha)."""
    alpha = op.number("alpha")
    return op.Relu(x) + alpha * op.Elu(op.Neg(op.Relu(op.Neg(x))) / alpha)
