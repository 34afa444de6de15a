# SPDX-License-Identifier: Apache-2.0
"""Finds Softmax, LogSoftmax and Hardmax in other forms than the adapters write."""

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


# not derived: adapters subtract the largest value, because Exp overflows without it
@modern("Softmax", since=13, differs=OVERFLOWS)
def softmax_of_the_values(op: Formula, input: Term) -> Term:
    """Matches Exp(x) / ReduceSum(Exp(x))."""
    power = op.Exp(input)
    return power / op.ReduceSum(power, axes=op.axis("axis"), keepdims=1)


# not derived: exporters permute any axes, the adapter exchanges two
@modern("Softmax", since=13, when=turned_back)
def softmax_of_turned_axes(op: Formula, input: Term) -> Term:
    """Matches Transpose(Softmax(Transpose(x)))."""
    return of_turned_axes(op, "Softmax", input)


FINITE = "the logarithm of a probability that rounds to zero is finite, not minus infinity"


# not derived: adapters write LogSoftmax by its own definition, which is more exact
@modern("LogSoftmax", since=13, differs=FINITE)
def log_of_softmax(op: Formula, input: Term) -> Term:
    """Matches Log(Softmax(x))."""
    return op.Log(op.Softmax(input, axis=op.attribute("axis")))


# not derived: exporters permute any axes, the adapter exchanges two
@modern("LogSoftmax", since=13, when=turned_back)
def log_softmax_of_turned_axes(op: Formula, input: Term) -> Term:
    """Matches Transpose(LogSoftmax(Transpose(x)))."""
    return of_turned_axes(op, "LogSoftmax", input)


# not derived: exporters permute any axes, the adapter exchanges two
@modern("Hardmax", since=13, when=turned_back)
def hardmax_of_turned_axes(op: Formula, input: Term) -> Term:
    """Matches Transpose(Hardmax(Transpose(x)))."""
    return of_turned_axes(op, "Hardmax", input)
