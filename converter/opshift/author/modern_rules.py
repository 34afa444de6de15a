# SPDX-License-Identifier: Apache-2.0
"""Declares formulas by which `--modernize` finds newer operators in the nodes of a model."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from opshift.author.example import Draft, Example, drafted
from opshift.author.node import Env, Value
from opshift.author.traits import Trait
from opshift.errors import AdapterBug
from opshift.records import dataclass

if TYPE_CHECKING:
    from opshift.author.formula import Term


@dataclass(frozen=True, slots=True)
class Binding:
    """The values and attributes that are bound to parameters at one point of the search."""

    values: dict[str, str]  # the input values, by the names of the formula's parameters
    numbers: dict[str, Any]  # the values of the attributes
    nodes: frozenset[int]  # the positions of the nodes that compute the formula
    shaped: bool = False  # whether a constant has axes, which may add axes to the result

    def with_value(self, name: str, value: str) -> Iterator[Binding]:
        """Yields a copy that binds one more input, unless the input has another value already."""
        if self.values.get(name, value) == value:
            yield replace(self, values={**self.values, name: value})

    def with_number(self, name: str, number: Any) -> Iterator[Binding]:
        """Yields a copy that binds one more attribute, unless it has another value already."""
        if self.numbers.get(name, number) == number:
            yield replace(self, numbers={**self.numbers, name: number})


@dataclass(frozen=True, slots=True)
class Found:
    """Nodes that match a formula, with the matched inputs and attribute values."""

    binding: Binding
    env: Env

    def __getitem__(self, name: str) -> Value:
        """Returns the input that matches a parameter of the formula."""
        return Value(self.binding.values[name], self.env)

    def __contains__(self, name: str) -> bool:
        return name in self.binding.values

    @property
    def numbers(self) -> dict[str, Any]:
        """Returns the attribute values that the match determines."""
        return dict(self.binding.numbers)


When: TypeAlias = Callable[[Found], Mapping[str, Any] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Modern(Trait):
    """A formula, and the operator that can replace it from an opset on, with its attributes."""

    table = "modern"
    since: int
    run: Callable[..., Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    when: When | None = None
    differs: str = ""  # how the result differs from the formula; empty if only the rounding differs
    examples: tuple[Example, ...] = ()

    @property
    def op(self) -> str:
        """Returns the name of the operator."""
        return self.ops[0]

    @property
    def inputs(self) -> tuple[str, ...]:
        """Returns the inputs of the operator, in order."""
        return tuple(inspect.signature(self.run).parameters)[1:]

    @property
    def source(self) -> str:
        """Returns the module and the function of the rule, for messages."""
        return f"{self.run.__module__}.{getattr(self.run, '__name__', '?')}"

    @property
    def formula(self) -> Term:
        """Returns the formula as a pattern."""
        return _formula(self.run)


@functools.cache
def _formula(run: Callable[..., Any]) -> Term:
    from opshift.author.formula import Formula, Free

    names = tuple(inspect.signature(run).parameters)[1:]
    pattern: Term = run(Formula(), *map(Free, names))
    return pattern


def modern(
    op: str,
    *,
    since: int,
    when: When | None = None,
    differs: str = "",
    attributes: Mapping[str, Any] | None = None,
) -> Callable[[Callable[..., Any] | Draft], Modern]:
    """Declares that the function below is the formula of an operator, from an opset on.

    The parameters of the function after the first are the inputs of the operator, in order. The
    function `when` receives the matched nodes. `when` returns, by name, the attributes and the
    constants that replace parameters. `when` returns None if the operator would compute something
    else. The text `differs` says how the results differ; with this text, the rule is used only if
    the caller permits approximations.
    """

    def declare(below: Callable[..., Any] | Draft) -> Modern:
        draft = drafted(below)
        found = Modern(
            ops=(op,), since=since, run=draft.run, attributes=attributes or {}, when=when,
            differs=differs, examples=draft.examples,
        )  # fmt: skip
        if not draft.sentence:
            raise AdapterBug(f"{found.source}: a rule needs a docstring that states the formula")
        return found

    return declare
