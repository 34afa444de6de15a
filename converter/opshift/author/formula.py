# SPDX-License-Identifier: Apache-2.0
"""Defines formulas: the computation of an operator as a pattern that is searched in models.

A formula is a function of the inputs of an operator. The function is called once with terms in
place of values, and the returned terms are the pattern. A sum or a product matches in any order and
grouping of its operands.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, ClassVar, TypeAlias

from opshift.author.traits import Arithmetic
from opshift.records import dataclass

Operand: TypeAlias = "Term | float"


class Term:
    """A part of a formula, which supports Python's arithmetic operators."""

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
    """An input of the operator, which must match the same value everywhere in the formula."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Number(Term):
    """A constant with one element: a fixed number, or the number in an attribute."""

    value: float | str


@dataclass(frozen=True, slots=True, eq=False)
class Group(Term):
    """A sum or a product: the added and subtracted operands, or the factors and divisors."""

    kind: ClassVar[str]
    plus: tuple[Term, ...]
    minus: tuple[Term, ...] = ()


class Product(Group):
    """A product of factors, divided by divisors."""

    kind = "product"


class Sum(Group):
    """A sum of operands, minus other operands."""

    kind = "sum"


@dataclass(frozen=True, slots=True, eq=False)
class Applied(Term):
    """A node with a given operator, operands and attributes."""

    op: str
    operands: tuple[Term, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Converted(Term):
    """A value with an optional Cast: to a given type, to an attribute's type, or to any type."""

    operand: Term
    kind: str | int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Either(Term):
    """A value that may be written in one of several ways."""

    ways: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Axes:
    """The axes of a reduction: the axis in an attribute, or all axes from that axis on."""

    name: str
    last: bool


@dataclass(frozen=True, slots=True)
class Handed:
    """A node attribute that must equal an attribute of the operator that the formula defines."""

    name: str


class Formula:
    """A writer of a formula, in which `op.Name(...)` adds a node as with a Builder."""

    def __getattr__(self, op_type: str) -> Callable[..., Term]:
        if not op_type[:1].isupper():
            raise AttributeError(op_type)
        return functools.partial(self._made, op_type)

    def _made(self, op_type: str, *operands: Operand, **attributes: Any) -> Term:
        return Applied(op_type, tuple(map(term, operands)), attributes)

    def number(self, name: str) -> Term:
        """Matches a constant whose number becomes the attribute of this name."""
        return Number(name)

    def axis(self, name: str) -> Axes:
        """Matches a single axis, which becomes the attribute of this name."""
        return Axes(name, last=False)

    def either(self, *ways: Term) -> Term:
        """Matches a value that is written in one of several ways."""
        return Either(ways)

    def attribute(self, name: str) -> Handed:
        """Matches any value of a node's attribute, which becomes the attribute of this name."""
        return Handed(name)

    def cast(self, operand: Term, kind: str | None = None) -> Term:
        """Matches a value cast to the type that an attribute names, or to a suitable type."""
        return Converted(operand, kind)


def term(operand: Operand) -> Term:
    """Turns a Python number into a constant of the formula; other terms stay unchanged."""
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
    operand_term = term(operand)
    return operand_term if isinstance(operand_term, kind) else kind((operand_term,))


def heads(pattern: Term, arithmetics: Mapping[str, Arithmetic]) -> frozenset[str]:
    """Returns the operators whose nodes may compute a term."""
    match pattern:
        case Group():
            return frozenset(arithmetics[pattern.kind].ops)
        case Applied():
            return frozenset({pattern.op})
        case Converted():
            return heads(pattern.operand, arithmetics) | {"Cast"}
        case Either():
            return frozenset().union(*(heads(way, arithmetics) for way in pattern.ways))
        case _:
            return frozenset()


def parts(pattern: Term) -> list[Term]:
    """Returns the direct operands of a term."""
    match pattern:
        case Group():
            return [*pattern.plus, *pattern.minus]
        case Applied():
            return list(pattern.operands)
        case Converted():
            return [pattern.operand]
        case Either():
            return list(pattern.ways)
        case _:
            return []


def size(pattern: Term) -> int:
    """Returns the number of terms in a formula."""
    return 1 + sum(map(size, parts(pattern)))


def operators(pattern: Term) -> frozenset[str]:
    """Returns the operators that a formula names."""
    named = {pattern.op} if isinstance(pattern, Applied) else set()
    return frozenset(named).union(*map(operators, parts(pattern)))
