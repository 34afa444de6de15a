# SPDX-License-Identifier: Apache-2.0
"""Gelu with Tanh as exporters write it."""

from math import pi, sqrt

from opshift.adapter import Formula, Term, modern


# not derived: exporters round the root once, the adapter rounds before and after the root
@modern("Gelu", since=20, attributes={"approximate": "tanh"})
def by_tanh(op: Formula, x: Term) -> Term:
    """Matches x / 2 * (1 + Tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))."""
    cubic = sqrt(2 / pi) * (x + 0.044715 * (x * x * x))
    product = sqrt(2 / pi) * x * (0.044715 * (x * x) + 1)
    return 0.5 * x * (op.Tanh(op.either(cubic, product)) + 1)
