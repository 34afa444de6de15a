# SPDX-License-Identifier: Apache-2.0
"""Examples of declarations, which are documentation, tests and rows of the matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from opshift.codes.refusals import Why
from opshift.records import dataclass

if TYPE_CHECKING:
    from opshift.assumptions import Assumption


@dataclass(frozen=True, slots=True)
class Example:
    """One case of a declaration: its documentation, its test and its row in the matrix."""

    title: str
    graph: str
    gives: str | None = None
    refuses: Why | None = None
    approximate: bool = False
    rtol: float = 0.0
    atol: float = 0.0
    given: Mapping[str, Any] = field(default_factory=dict)  # values, or functions that give them
    imports: Mapping[str, int] = field(default_factory=dict)
    ir_version: int | None = None
    functions: str = ""
    invalid: str | None = None
    assume: tuple[Assumption, ...] = ()
    runtime: str = ""  # the target, if it is not the runtime of its declaration

    def of(self, op: str) -> Example:
        """The example with an operator's name for `{op}`."""
        # Not dataclasses.replace, which is slow: an import of all adapters makes a thousand.
        return Example(
            self.title, self.graph.replace("{op}", op),
            self.gives.replace("{op}", op) if self.gives else self.gives, self.refuses,
            self.approximate, self.rtol, self.atol, self.given, self.imports, self.ir_version,
            self.functions, self.invalid, self.assume, self.runtime,
        )  # fmt: skip

    @property
    def inputs(self) -> dict[str, Any]:
        """The values of inputs that the example gives."""
        return {name: one() if callable(one) else one for name, one in self.given.items()}

    @property
    def options(self) -> dict[str, Any]:
        """The permissions that its conversion needs."""
        assumed = tuple(one.value for one in self.assume)
        return {"allow_approximate": self.approximate, "assume": assumed}

    @property
    def outcome(self) -> str | None:
        """The outcome in a few words; None if the result is merely equal."""
        if self.invalid is not None:
            return f"invalid: {self.invalid}"
        return f"refused: {self.refuses.name}" if self.refuses else self.gives


@dataclass(frozen=True, slots=True)
class Draft:
    """A function with the examples that stand above it."""

    run: Callable[..., Any]
    examples: tuple[Example, ...] = ()


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
    """A case of the function below it, in onnx's text format: `(inputs) => (outputs) { nodes }`.

    A value of `inputs` that needs numpy is a function, so that a conversion does not import numpy.
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
    """A ready-made function with its examples, for `boundary(..., down=shown(...))`."""
    draft = Draft(run)
    for one in reversed(examples):
        draft = one(draft)
    return draft


def drafted(below: Callable[..., Any] | Draft) -> Draft:
    """A function with its examples, of which a plain function has none."""
    return below if isinstance(below, Draft) else Draft(below)


def listed(names: str | Iterable[str]) -> tuple[str, ...]:
    """The names in a list, or in one text with spaces."""
    return tuple(names.split() if isinstance(names, str) else names)


def spread(examples: Sequence[Example], names: Sequence[str]) -> tuple[Example, ...]:
    """The examples; one with `{op}` is copied for each operator."""
    found: list[Example] = []
    for one in examples:
        found += [one.of(name) for name in names] if "{op}" in one.graph else [one]
    return tuple(found)
