# SPDX-License-Identifier: Apache-2.0
"""The nodes found for a formula, apart from the search, which few conversions import."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from opshift.author.node import Env, Value
from opshift.records import dataclass


@dataclass(frozen=True, slots=True)
class Binding:
    """The bindings of a formula at one point of the search."""

    values: dict[str, str]  # the inputs by the names of the parameters
    numbers: dict[str, Any]  # the values of the attributes
    nodes: frozenset[int]  # the positions of the nodes that compute the formula
    shaped: bool = False  # whether a constant has axes, which may add axes to the result

    def with_value(self, name: str, value: str) -> Iterator[Binding]:
        """This binding with one more input; None if the parameter has another value already."""
        if self.values.get(name, value) == value:
            yield replace(self, values={**self.values, name: value})

    def with_number(self, name: str, number: Any) -> Iterator[Binding]:
        """This binding with one more attribute; None if the attribute already has another value."""
        if self.numbers.get(name, number) == number:
            yield replace(self, numbers={**self.numbers, name: number})


@dataclass(frozen=True, slots=True)
class Found:
    """Nodes that compute a formula: its inputs and the numbers of its attributes."""

    binding: Binding
    env: Env

    def __getitem__(self, name: str) -> Value:
        """An input of the formula, by the name of its parameter."""
        return Value(self.binding.values[name], self.env)

    def __contains__(self, name: str) -> bool:
        return name in self.binding.values

    @property
    def numbers(self) -> dict[str, Any]:
        """The values of the attributes that the formula found."""
        return dict(self.binding.numbers)
