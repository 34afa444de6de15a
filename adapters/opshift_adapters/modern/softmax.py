# SPDX-License-Identifier: Apache-2.0
"""Softmax from exponentials and their sum, and of turned axes.

Opset 1 has Softmax, so no adapter takes it away at an opset and `mirrored` has no nodes to read.
The permutation around turned axes depends on the rank.
"""

from opshift.adapter import Formula, Term, example, modern

from opshift_adapters.modern.turned_axes import TURNED, of_turned_axes, turned_back

OVERFLOWS = "large numbers no longer overflow in its exponentials"


@modern("Softmax", since=13)
def softmax(op: Formula, input: Term) -> Term:
    """Exp(x - max) / ReduceSum(Exp(x - max))."""
    axis = op.axis("axis")
    power = op.Exp(input - op.ReduceMax(input, axes=axis, keepdims=1))
    return power / op.ReduceSum(power, axes=axis, keepdims=1)


@modern("Softmax", since=13, differs=OVERFLOWS)
def softmax_of_the_values(op: Formula, input: Term) -> Term:
    """Exp(x) / ReduceSum(Exp(x))."""
    power = op.Exp(input)
    return power / op.ReduceSum(power, axes=op.axis("axis"), keepdims=1)


@modern("Softmax", since=13, when=turned_back)
@example("of the first axis", TURNED.replace("{op}", "Softmax"), gives="Softmax", atol=1e-6)
def softmax_of_turned_axes(op: Formula, input: Term) -> Term:
    """Transpose(Softmax(Transpose(x)))."""
    return of_turned_axes(op, "Softmax", input)
