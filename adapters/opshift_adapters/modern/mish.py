# SPDX-License-Identifier: Apache-2.0
"""Mish from Softplus and Tanh."""

from opshift.adapter import Formula, Term, example, modern


@modern("Mish", since=18)
@example(
    "of Softplus",
    "(float[2,3] x) => (float[2,3] y) { s = Softplus(x) t = Tanh(s) y = Mul(x, t) }",
    gives="Mish",
    atol=1e-6,
)
def mish(op: Formula, x: Term) -> Term:
    """x * Tanh(Softplus(x))."""
    return x * op.Tanh(op.Softplus(x))
