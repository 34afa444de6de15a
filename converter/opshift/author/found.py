# SPDX-License-Identifier: Apache-2.0
"""Stores the nodes that match a formula; most conversions need no search and import only this."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from opshift.author.node import Env, Value
from opshift.records import dataclass


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
