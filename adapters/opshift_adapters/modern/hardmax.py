# SPDX-License-Identifier: Apache-2.0
"""Hardmax of turned axes.

Opset 1 has Hardmax, so no adapter takes it away at an opset; the permutation depends on the rank.
"""

from opshift.adapter import Formula, Term, example, modern

from opshift_adapters.modern.turned_axes import TURNED, of_turned_axes, turned_back


@modern("Hardmax", since=13, when=turned_back)
@example("of the first axis", TURNED.replace("{op}", "Hardmax"), gives="Hardmax")
def hardmax_of_turned_axes(op: Formula, input: Term) -> Term:
    """Transpose(Hardmax(Transpose(x)))."""
    return of_turned_axes(op, "Hardmax", input)
