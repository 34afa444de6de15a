# SPDX-License-Identifier: Apache-2.0
"""Gives values Python's operators, so that a decomposition reads like its formula."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

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


_Value = TypeVar("_Value", bound="Infix")


def _left(op_type: str) -> Callable[[_Value, _Value | float | Array], _Value]:
    """Returns the method that writes an operator whose first operand is the value."""

    def write(value: _Value, other: _Value | float | Array) -> _Value:
        return value._written(op_type, value, other)

    return write


def _right(op_type: str) -> Callable[[_Value, _Value | float | Array], _Value]:
    """Returns the method that writes an operator whose second operand is the value."""

    def write(value: _Value, other: _Value | float | Array) -> _Value:
        return value._written(op_type, other, value)

    return write


class Infix:
    """A value whose Python operators write nodes; a number operand becomes a constant.

    `a / b` writes Div, which truncates the quotient of integers; `a // b` is only for floats. `a %
    b` writes Mod, whose result has the sign of the divisor. `&`, `|` and `~` write And, Or and Not.
    """

    __slots__ = ()
    __array_ufunc__ = None  # makes numpy leave the operator to this class
    env: Around

    __add__, __radd__ = _left("Add"), _right("Add")
    __sub__, __rsub__ = _left("Sub"), _right("Sub")
    __mul__, __rmul__ = _left("Mul"), _right("Mul")
    __truediv__, __rtruediv__ = _left("Div"), _right("Div")
    __pow__, __mod__ = _left("Pow"), _left("Mod")
    __lt__, __gt__ = _left("Less"), _left("Greater")
    __and__, __or__ = _left("And"), _left("Or")

    def __floordiv__(self, other: Self | float | Array) -> Self:
        return self._written("Floor", self / other)

    def __neg__(self) -> Self:
        return self._written("Neg", self)

    def __invert__(self) -> Self:
        return self._written("Not", self)

    def _written(self, op_type: str, *operands: Any) -> Self:
        """Writes an operator in the innermost subgraph of its operands; returns the result."""
        values = [operand for operand in operands if isinstance(operand, Infix)]
        op = max((value.env for value in values), key=lambda env: env.depth).builder
        arguments = [
            operand if operand in values else _number(op, operand, values[0])
            for operand in operands
        ]
        since = BROADCASTS if len(values) < len(operands) else 1
        result: Self = getattr(op, op_type)(*arguments, since=since)
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
