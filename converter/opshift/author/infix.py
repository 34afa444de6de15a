# SPDX-License-Identifier: Apache-2.0
"""Gives values Python's operators, so that a decomposition reads like its formula."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from opshift.errors import AdapterBug
from opshift.model.arrays import Array, is_array

if TYPE_CHECKING:
    from typing_extensions import Self

BROADCASTS = 7  # the first opset in which a number broadcasts with any value


class Writer(Protocol):
    """The methods of a Builder that write nodes."""

    def const(self, value: Any, *, like: Any) -> Any: ...
    def __getattr__(self, op_type: str) -> Callable[..., Any]: ...


class Around(Protocol):
    """The scope in which a value is used."""

    @property
    def depth(self) -> int:
        """Returns how many unfinished subgraphs contain the scope."""

    @property
    def builder(self) -> Writer:
        """Returns the Builder that writes in the scope."""


class Infix:
    """A value whose Python operators write nodes; a number operand becomes a constant.

    `a / b` writes Div, which truncates the quotient of integers; `a // b` is only for floats. `a %
    b` writes Mod, whose result has the sign of the divisor. `&`, `|` and `~` write And, Or and Not.
    """

    __slots__ = ()
    __array_ufunc__ = None  # makes numpy leave the operator to this class
    env: Around

    def __add__(self, other: Self | float | Array) -> Self:
        return self._written(lambda op: op.Add, self, other)

    def __radd__(self, other: float | Array) -> Self:
        return self._written(lambda op: op.Add, other, self)

    def __sub__(self, other: Self | float | Array) -> Self:
        return self._written(lambda op: op.Sub, self, other)

    def __rsub__(self, other: float | Array) -> Self:
        return self._written(lambda op: op.Sub, other, self)

    def __mul__(self, other: Self | float | Array) -> Self:
        return self._written(lambda op: op.Mul, self, other)

    def __rmul__(self, other: float | Array) -> Self:
        return self._written(lambda op: op.Mul, other, self)

    def __truediv__(self, other: Self | float | Array) -> Self:
        return self._written(lambda op: op.Div, self, other)

    def __rtruediv__(self, other: float | Array) -> Self:
        return self._written(lambda op: op.Div, other, self)

    def __floordiv__(self, other: Self | float | Array) -> Self:
        return self._written(lambda op: op.Floor, self / other)

    def __pow__(self, other: Self | float | Array) -> Self:
        return self._written(lambda op: op.Pow, self, other)

    def __mod__(self, other: Self | float | Array) -> Self:
        return self._written(lambda op: op.Mod, self, other)

    def __neg__(self) -> Self:
        return self._written(lambda op: op.Neg, self)

    def __lt__(self, other: Self | float) -> Self:
        return self._written(lambda op: op.Less, self, other)

    def __gt__(self, other: Self | float) -> Self:
        return self._written(lambda op: op.Greater, self, other)

    def __and__(self, other: Self) -> Self:
        return self._written(lambda op: op.And, self, other)

    def __or__(self, other: Self) -> Self:
        return self._written(lambda op: op.Or, self, other)

    def __invert__(self) -> Self:
        return self._written(lambda op: op.Not, self)

    def _written(self, pick: Callable[[Writer], Callable[..., Any]], *operands: Any) -> Self:
        """Writes an operator in the innermost subgraph of its operands; returns the result."""
        values = [operand for operand in operands if isinstance(operand, Infix)]
        op = max((value.env for value in values), key=lambda env: env.depth).builder
        arguments = [
            operand if operand in values else _number(op, operand, values[0])
            for operand in operands
        ]
        since = BROADCASTS if len(values) < len(operands) else 1
        result: Self = pick(op)(*arguments, since=since)
        return result


def _number(op: Writer, number: Any, like: Any) -> Any:
    if not isinstance(number, int | float) and not is_array(number):
        raise AdapterBug(f"an operand is {number!r}, but operands must be values or numbers")
    constant = op.const(number, like=like)
    array = constant.const_or_none()
    if array is not None and array.dtype.kind in "iub" and (array != number).any():
        raise AdapterBug(
            f"the operand {number!r} is not exact in the element type of the other operand"
        )
    return constant
