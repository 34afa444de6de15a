# SPDX-License-Identifier: Apache-2.0
"""LogSoftmax from exponentials and their sum, from Softmax, and of turned axes.

Opset 1 has LogSoftmax, so no adapter takes it away at an opset and `mirrored` has no nodes to read.
"""

from opshift.adapter import Formula, Term, example, modern

from opshift_adapters.modern.turned_axes import TURNED, of_turned_axes, turned_back


@modern("LogSoftmax", since=13)
def log_softmax(op: Formula, input: Term) -> Term:
    """x - max - Log(ReduceSum(Exp(x - max)))."""
    axis = op.axis("axis")
    gap = input - op.ReduceMax(input, axes=axis, keepdims=1)
    return gap - op.Log(op.ReduceSum(op.Exp(gap), axes=axis, keepdims=1))


@modern(
    "LogSoftmax",
    since=13,
    differs="a probability that rounds to zero has a finite logarithm, not minus infinity",
)
def log_of_softmax(op: Formula, input: Term) -> Term:
    """Log(Softmax(x))."""
    return op.Log(op.Softmax(input, axis=op.attribute("axis")))


@modern("LogSoftmax", since=13, when=turned_back)
@example("of the first axis", TURNED.replace("{op}", "LogSoftmax"), gives="LogSoftmax", atol=1e-6)
def log_softmax_of_turned_axes(op: Formula, input: Term) -> Term:
    """Transpose(LogSoftmax(Transpose(x)))."""
    return of_turned_axes(op, "LogSoftmax", input)
