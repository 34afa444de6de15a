# SPDX-License-Identifier: Apache-2.0
"""Rules that find an operator in the nodes of an older model: declarations of `--modernize`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeAlias

from opshift.author.example import Draft, Example, drafted
from opshift.author.traits import Trait
from opshift.errors import AdapterBug
from opshift.records import dataclass

if TYPE_CHECKING:
    from opshift.author.formula import Term
    from opshift.author.unify import Found

When: TypeAlias = "Callable[[Found], Mapping[str, Any] | None]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Modern(Trait):
    """A formula, the operator that computes it from an opset on, and its fixed attributes."""

    table = "modern"
    since: int
    run: Callable[..., Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    when: When | None = None
    differs: str = ""  # how the operator differs; empty where only the rounding does
    examples: tuple[Example, ...] = ()

    @property
    def op(self) -> str:
        """The operator."""
        return self.ops[0]

    @property
    def inputs(self) -> tuple[str, ...]:
        """The inputs of the operator, in their order."""
        return tuple(inspect.signature(self.run).parameters)[1:]

    @property
    def source(self) -> str:
        """The name of the rule."""
        return f"{self.run.__module__}.{getattr(self.run, '__name__', '?')}"

    @property
    def formula(self) -> Term:
        """The pattern that the formula makes."""
        return _formula(self.run)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic(Trait):
    """The operators of sums, or of products: they join, take away and turn round."""

    table = "arithmetic"
    kind: str
    neutral: int
    power: str = ""  # the operator of equal operands

    @property
    def join(self) -> str:
        """The operator that joins two operands."""
        return self.ops[0]

    @property
    def part(self) -> str:
        """The operator that takes its second operand away from the first."""
        return self.ops[1]

    @property
    def turn(self) -> str:
        """The operator that takes its operand away from the neutral number."""
        return self.ops[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commutes(Trait):
    """Operators of two operands whose order does not matter."""

    table = "commutes"


def arithmetic(
    kind: str, join: str, part: str, turn: str, *, neutral: int, power: str = ""
) -> Arithmetic:
    """Declares the operators of sums, or of products."""
    return Arithmetic(ops=(join, part, turn), kind=kind, neutral=neutral, power=power)


def commutes(ops: str) -> Commutes:
    """Declares operators of two operands whose order does not matter."""
    return Commutes(ops=tuple(ops.split()))


@functools.cache
def _formula(run: Callable[..., Any]) -> Term:
    from opshift.author.formula import Formula, Free

    names = tuple(inspect.signature(run).parameters)[1:]
    found: Term = run(Formula(), *map(Free, names))
    return found


def modern(
    op: str,
    *,
    since: int,
    when: When | None = None,
    differs: str = "",
    attributes: Mapping[str, Any] | None = None,
) -> Callable[[Callable[..., Any] | Draft], Modern]:
    """Declares that the function below it is the formula of an operator, from an opset on.

    The parameters of the function after the first are the inputs of the operator, in its order.
    `when` is given what was found. It returns the attributes and, by the names of parameters, the
    constants that take their places; or None where the operator computes something else.
    `differs` says how the numbers differ; the caller must then permit it.
    """

    def declare(below: Callable[..., Any] | Draft) -> Modern:
        draft = drafted(below)
        found = Modern(
            ops=(op,), since=since, run=draft.run, attributes=attributes or {}, when=when,
            differs=differs, examples=draft.examples,
        )  # fmt: skip
        if not (draft.run.__doc__ or "").strip():
            raise AdapterBug(f"{found.source}: a rule needs a docstring that says the formula")
        return found

    return declare
