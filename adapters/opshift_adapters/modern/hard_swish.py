# SPDX-License-Identifier: Apache-2.0
"""HardSwish from HardSigmoid or from Clip."""

from opshift.adapter import Formula, Term, example, modern

CUT = "(float[2,3] x) => (float[2,3] y) <float three = {3}, float zero = {0}, float six = {6}> "


@modern("HardSwish", since=14)
@example(
    "of HardSigmoid",
    "(float[2,3] x) => (float[2,3] y) { h = HardSigmoid<alpha=0.16666667, beta=0.5>(x) y = Mul(x,"
    " h) }",
    gives="HardSwish",
    atol=1e-6,
)
@example(
    "another slope",
    "(float[2,3] x) => (float[2,3] y) { h = HardSigmoid(x) y = Mul(x, h) }",
    gives="HardSigmoid Mul",
)
def hard_swish(op: Formula, x: Term) -> Term:
    """x * HardSigmoid(x, alpha=1/6, beta=0.5), or x * Clip(x + 3, 0, 6) / 6."""
    return op.either(x * op.HardSigmoid(x, alpha=1 / 6, beta=0.5), x * op.Clip(x + 3, 0, 6) / 6)
