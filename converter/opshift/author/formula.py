# SPDX-License-Identifier: Apache-2.0
"""Formulas: the computation of an operator, written like a decomposition and searched in a model.

A formula is a function of the inputs of an operator. It is called once with terms instead of
values. The returned terms are a pattern. Sums and products are sets: the order and the grouping of
their operands do not matter.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from opshift.records import dataclass

if TYPE_CHECKING:
    from opshift.author.algebra import Arithmetic

Operand: TypeAlias = "Term | float"


class Term:
    """A part of a formula, with the operators of Python."""

    def __mul__(self, other: Operand) -> Term:
        return _joined(Product, self, other)

    def __rmul__(self, other: Operand) -> Term:
        return _joined(Product, other, self)

    def __truediv__(self, other: Operand) -> Term:
        return _parted(Product, self, other)

    def __rtruediv__(self, other: Operand) -> Term:
        return _parted(Product, other, self)

    def __add__(self, other: Operand) -> Term:
        return _joined(Sum, self, other)

    def __radd__(self, other: Operand) -> Term:
        return _joined(Sum, other, self)

    def __sub__(self, other: Operand) -> Term:
        return _parted(Sum, self, other)

    def __rsub__(self, other: Operand) -> Term:
        return _parted(Sum, other, self)


@dataclass(frozen=True, slots=True, eq=False)
class Free(Term):
    """An input of the operator: any value, but the same one in each place of the formula."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Number(Term):
    """A constant with one element: a known number, or the number in an attribute."""

    value: float | str


@dataclass(frozen=True, slots=True, eq=False)
class Group(Term):
    """Operands that are added, and operands that are subtracted."""

    kind: ClassVar[str]
    plus: tuple[Term, ...]
    minus: tuple[Term, ...] = ()


class Product(Group):
    """Factors and divisors."""

    kind = "product"


class Sum(Group):
    """Summands and subtrahends."""

    kind = "sum"


@dataclass(frozen=True, slots=True, eq=False)
class Applied(Term):
    """A node of some operator, with the attributes that matter."""

    op: str
    operands: tuple[Term, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Converted(Term):
    """A value that a formula may cast: to one type, to that of an attribute, or to any type."""

    operand: Term
    kind: str | int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Either(Term):
    """One of several ways to write a value."""

    ways: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Axes:
    """The axes of a reduction: the axis in an attribute, or all axes from there on."""

    name: str
    last: bool


@dataclass(frozen=True, slots=True)
class Handed:
    """An attribute of a node that an attribute of the operator has too."""

    name: str


class Formula:
    """The writer of a formula: `op.Name(...)` is a node, as with a Builder."""

    def __getattr__(self, op_type: str) -> Callable[..., Term]:
        if not op_type[:1].isupper():
            raise AttributeError(op_type)
        return functools.partial(self._made, op_type)

    def _made(self, op_type: str, *operands: Operand, **attributes: Any) -> Term:
        return Applied(op_type, tuple(map(term, operands)), attributes)

    def number(self, name: str) -> Term:
        """The number that an attribute of the operator holds."""
        return Number(name)

    def axis(self, name: str) -> Axes:
        """The one axis that an attribute of the operator holds."""
        return Axes(name, last=False)

    def either(self, *ways: Term) -> Term:
        """A value that is written in one of several ways."""
        return Either(ways)

    def attribute(self, name: str) -> Handed:
        """An attribute of a node has the value of this attribute of the operator."""
        return Handed(name)

    def cast(self, operand: Term, kind: str | None = None) -> Term:
        """A value in the element type that an attribute names, or in the fitting type."""
        return Converted(operand, kind)


def term(operand: Operand) -> Term:
    """A number is a constant."""
    return operand if isinstance(operand, Term) else Number(operand)


def _joined(kind: type[Group], a: Operand, b: Operand) -> Term:
    left, right = _group(kind, a), _group(kind, b)
    return kind((*left.plus, *right.plus), (*left.minus, *right.minus))


def _parted(kind: type[Group], a: Operand, b: Operand) -> Term:
    left, right = _group(kind, a), _group(kind, b)
    return kind((*left.plus, *right.minus), (*left.minus, *right.plus))


def _group(kind: type[Group], operand: Operand) -> Group:
    if kind is Product and operand == 1 and not isinstance(operand, Term):
        return Product(())
    found = term(operand)
    return found if isinstance(found, kind) else kind((found,))


def heads(found: Term, known: Mapping[str, Arithmetic]) -> frozenset[str]:
    """The operators whose nodes may compute a term."""
    match found:
        case Group():
            return frozenset(known[found.kind].ops)
        case Applied():
            return frozenset({found.op})
        case Converted():
            return heads(found.operand, known) | {"Cast"}
        case Either():
            return frozenset().union(*(heads(way, known) for way in found.ways))
        case _:
            return frozenset()


def parts(found: Term) -> list[Term]:
    """The terms that a term directly consists of."""
    match found:
        case Group():
            return [*found.plus, *found.minus]
        case Applied():
            return list(found.operands)
        case Converted():
            return [found.operand]
        case Either():
            return list(found.ways)
        case _:
            return []


def size(found: Term) -> int:
    """How many parts a formula has."""
    return 1 + sum(map(size, parts(found)))


def operators(found: Term) -> frozenset[str]:
    """The operators that a formula names."""
    own = {found.op} if isinstance(found, Applied) else set()
    return frozenset(own).union(*map(operators, parts(found)))
