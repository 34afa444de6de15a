# SPDX-License-Identifier: Apache-2.0
"""Defines the examples of adapters, which serve as documentation, as tests and in a table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from opshift.assumptions import Assumption
from opshift.codes.refusals import Why
from opshift.records import dataclass

WITHOUT_DOCSTRINGS = 2  # the level of `python -OO`


@dataclass(frozen=True, slots=True)
class Example:
    """An example of an adapter: a documented model, a test and a row of the conversion table."""

    title: str
    graph: str
    gives: str | None = None
    refuses: Why | None = None
    approximate: bool = False
    rtol: float = 0.0
    atol: float = 0.0
    given: Mapping[str, Any] = field(default_factory=dict)  # arrays, or functions for arrays
    imports: Mapping[str, int] = field(default_factory=dict)
    ir_version: int | None = None
    functions: str = ""
    invalid: str | None = None
    assume: tuple[Assumption, ...] = ()
    runtime: str = ""  # the target, if it differs from the runtime of the adapter

    def of(self, op: str) -> Example:
        """Returns the example with `{op}` replaced by the name of an operator."""
        # dataclasses.replace is too slow here: an import of all adapters makes a thousand examples.
        return Example(
            self.title, self.graph.replace("{op}", op),
            self.gives.replace("{op}", op) if self.gives else self.gives, self.refuses,
            self.approximate, self.rtol, self.atol, self.given, self.imports, self.ir_version,
            self.functions, self.invalid, self.assume, self.runtime,
        )  # fmt: skip

    @property
    def inputs(self) -> dict[str, Any]:
        """Returns the input values that the example defines."""
        return {name: value() if callable(value) else value for name, value in self.given.items()}

    @property
    def options(self) -> dict[str, Any]:
        """Returns the options that the conversion of the example needs."""
        assumed = tuple(assumption.value for assumption in self.assume)
        return {"allow_approximate": self.approximate, "assume": assumed}

    @property
    def outcome(self) -> str | None:
        """Returns the expected outcome in a few words; None if only the results must be equal."""
        if self.invalid is not None:
            return f"invalid: {self.invalid}"
        return f"refused: {self.refuses.name}" if self.refuses else self.gives


@dataclass(frozen=True, slots=True)
class Draft:
    """A function with the examples that are written above it as decorators."""

    run: Callable[..., Any]
    examples: tuple[Example, ...] = ()

    @property
    def sentence(self) -> str:
        """The docstring of the function, which reports show; empty if the author wrote none."""
        written = (self.run.__doc__ or "").strip()
        if written or sys.flags.optimize < WITHOUT_DOCSTRINGS:
            return written
        name = getattr(self.run, "__name__", "a function")
        return f"Rewritten by {name}; `python -OO` removed its description."


def example(
    title: str,
    graph: str,
    *,
    gives: str | None = None,
    refuses: Why | None = None,
    approximate: bool = False,
    rtol: float = 0.0,
    atol: float = 0.0,
    inputs: Mapping[str, Any] | None = None,
    imports: Mapping[str, int] | None = None,
    ir_version: int | None = None,
    functions: str = "",
    invalid: str | None = None,
    assume: Assumption | None = None,
    runtime: str = "",
) -> Callable[[Callable[..., Any] | Draft], Draft]:
    """Declares an example of the function below; the graph is in onnx's text format.

    The graph has the form `(inputs) => (outputs) { nodes }`. A value of `inputs` that needs numpy
    is a function, so that a conversion does not import numpy.
    """
    case = Example(
        title, graph, gives, refuses, approximate, rtol, atol, inputs or {}, imports or {},
        ir_version, functions, invalid, () if assume is None else (assume,), runtime,
    )  # fmt: skip

    def attach(below: Callable[..., Any] | Draft) -> Draft:
        draft = drafted(below)
        return Draft(draft.run, (case, *draft.examples))

    return attach


def shown(
    run: Callable[..., Any], *examples: Callable[[Callable[..., Any] | Draft], Draft]
) -> Draft:
    """Adds examples to an existing function, for use as `boundary(..., down=shown(...))`."""
    draft = Draft(run)
    for shown_example in reversed(examples):
        draft = shown_example(draft)
    return draft


def drafted(below: Callable[..., Any] | Draft) -> Draft:
    """Returns a function with its examples; a plain function gets an empty list."""
    return below if isinstance(below, Draft) else Draft(below)


def listed(names: str | Iterable[str]) -> tuple[str, ...]:
    """Returns the names of a list, or of a text in which spaces separate them."""
    return tuple(names.split() if isinstance(names, str) else names)


def spread(examples: Sequence[Example], names: Sequence[str]) -> tuple[Example, ...]:
    """Returns the examples; an example with `{op}` is copied for each operator."""
    spread_examples: list[Example] = []
    for item in examples:
        spread_examples += [item.of(name) for name in names] if "{op}" in item.graph else [item]
    return tuple(spread_examples)
