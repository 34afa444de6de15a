# SPDX-License-Identifier: Apache-2.0
"""Swish from Sigmoid."""

from opshift.adapter import Formula, Term, example, modern


@modern("Swish", since=24)
@example(
    "of Sigmoid",
    "(float[2,3] x) => (float[2,3] y) { s = Sigmoid(x) y = Mul(s, x) }",
    gives="Swish",
    atol=1e-6,
)
@example(
    "of another value",
    "(float[2,3] x, float[2,3] z) => (float[2,3] y) { s = Sigmoid(z) y = Mul(s, x) }",
    gives="Sigmoid Mul",
)
def swish(op: Formula, x: Term) -> Term:
    """x * Sigmoid(alpha * x)."""
    return x * op.Sigmoid(op.either(x, op.number("alpha") * x))
