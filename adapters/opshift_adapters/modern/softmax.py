# SPDX-License-Identifier: Apache-2.0
"""Finds Softmax, LogSoftmax and Hardmax in exponentials and their sum, or on transposed axes.

Opset 1 has these operators, so no adapter removes them, from which a formula could follow. The
`perm` of the Transposes around a Softmax depends on the rank.
"""

from typing import Any

from opshift.adapter import Formula, Found, Term, modern


def turned_back(found: Found) -> dict[str, Any] | None:
    """Returns the axis for the input without Transposes, or None if these do not cancel out."""
    there, back, axis = (found.numbers[name] for name in ("there", "back", "axis"))
    if not there or not back or [there[place] for place in back] != list(range(len(there))):
        return None
    return {"axis": there[axis]}


def of_turned_axes(op: Formula, name: str, input: Term) -> Term:
    """Matches Transpose(operator(Transpose(x)))."""
    turned = op.Transpose(input, perm=op.attribute("there"))
    made = getattr(op, name)(turned, axis=op.attribute("axis"))
    return op.Transpose(made, perm=op.attribute("back"))


OVERFLOWS = "large inputs of Softmax do not overflow, as they did in Exp"


@modern("Softmax", since=13)
def softmax(op: Formula, input: Term) -> Term:
    """Matches Exp(x - max) / ReduceSum(Exp(x - max))."""
    axis = op.axis("axis")
    power = op.Exp(input - op.ReduceMax(input, axes=axis, keepdims=1))
    return power / op.ReduceSum(power, axes=axis, keepdims=1)


@modern("Softmax", since=13, differs=OVERFLOWS)
def softmax_of_the_values(op: Formula, input: Term) -> Term:
    """Matches Exp(x) / ReduceSum(Exp(x))."""
    power = op.Exp(input)
    return power / op.ReduceSum(power, axes=op.axis("axis"), keepdims=1)


@modern("Softmax", since=13, when=turned_back)
def softmax_of_turned_axes(op: Formula, input: Term) -> Term:
    """Matches Transpose(Softmax(Transpose(x)))."""
    return of_turned_axes(op, "Softmax", input)


@modern("LogSoftmax", since=13)
def log_softmax(op: Formula, input: Term) -> Term:
    """Matches x - max - Log(ReduceSum(Exp(x - max)))."""
    axis = op.axis("axis")
    gap = input - op.ReduceMax(input, axes=axis, keepdims=1)
    return gap - op.Log(op.ReduceSum(op.Exp(gap), axes=axis, keepdims=1))


FINITE = "the logarithm of a probability that rounds to zero is finite, not minus infinity"


@modern("LogSoftmax", since=13, differs=FINITE)
def log_of_softmax(op: Formula, input: Term) -> Term:
    """Matches Log(Softmax(x))."""
    return op.Log(op.Softmax(input, axis=op.attribute("axis")))


@modern("LogSoftmax", since=13, when=turned_back)
def log_softmax_of_turned_axes(op: Formula, input: Term) -> Term:
    """Matches Transpose(LogSoftmax(Transpose(x)))."""
    return of_turned_axes(op, "LogSoftmax", input)


@modern("Hardmax", since=13, when=turned_back)
def hardmax_of_turned_axes(op: Formula, input: Term) -> Term:
    """Matches Transpose(Hardmax(Transpose(x)))."""
    return of_turned_axes(op, "Hardmax", input)
