# SPDX-License-Identifier: Apache-2.0
"""Reads further examples of adapters from `tests/adapters/cases/` of the package's project.

The cases of the module `PACKAGE.normalize.softmax` are in `normalize/softmax.toml`. The folder is
searched for in the folders above the file of the module. The wheel of opshift contains the cases of
its adapters, because `opshift probe` needs them.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from opshift import toml
from opshift.assumptions import Assumption
from opshift.author.example import Example, spread
from opshift.author.verdicts import WORDS, Adapter, Mirror, converted
from opshift.codes.refusals import Why
from opshift.errors import AdapterBug
from opshift.model.arrays import Array

CASES = "tests/adapters/cases"
SPAN = re.compile(r"\{(-?\d+)\.\.(-?\d+)\}")


class Declared(Protocol):
    """An adapter or another rewriting function that may have examples and cases."""

    @property
    def ops(self) -> tuple[str, ...]: ...

    @property
    def run(self) -> Callable[..., Any] | None: ...

    @property
    def examples(self) -> tuple[Example, ...]: ...


def examples_of(declared: Declared) -> tuple[Example, ...]:
    """Returns the examples above a function, and the cases in the file of its module.

    A function that uses an adapter to replace an operator also gets the examples that this adapter
    converts.
    """
    cases: list[Example] = []
    for module, name in places(declared):
        if path := case_file(module):
            cases += spread(_cases(path).get(name, ()), declared.ops)
    uses_adapter = getattr(declared, "start", None) == WORDS[0] and hasattr(
        declared.run, "__wrapped__"
    )
    return (*declared.examples, *(converted(cases) if uses_adapter else cases))


def examples_with(declared: Declared, op: str) -> list[Example]:
    """Returns the examples of a declaration in which this operator occurs."""
    name = re.compile(rf"\b{op}\b")
    return [
        example
        for example in examples_of(declared)
        if name.search(f"{example.graph} {example.functions}")
    ]


def places(declared: Declared) -> Iterator[tuple[str, str]]:
    """Yields the module of an adapter, and the names of the tables with its cases.

    A table has the name of the function, "FUNCTION mirrored" for a function with exchanged inputs,
    or "OPERATOR FROM->TO" for a version change, because several changes may share a function.
    """
    run = declared.run
    if run is not None:
        mirrored = " mirrored" if isinstance(declared, Mirror) else ""
        yield run.__module__, f"{run.__name__}{mirrored}"
    if isinstance(declared, Adapter) and declared.at_boundary and declared.is_in_table:
        yield declared.module, f"{declared.ops[0]} {declared.start}->{declared.to}"


@cache
def _cases(path: Path) -> Mapping[str, tuple[Example, ...]]:
    functions = toml.loads(path.read_text("utf-8"))
    return {
        name: tuple(_example(path, name, case) for case in cases)
        for name, cases in functions.items()
    }


def case_file(module: str) -> Path | None:
    """Returns the file with the cases of a module; None if it has no cases."""
    source = getattr(sys.modules.get(module), "__file__", None)
    name = (module.partition(".")[2] or module).replace(".", "/") + ".toml"
    return _nearest(source, name) if source else None


@cache
def _nearest(source: str, name: str) -> Path | None:
    """Returns the file of this name in the nearest folder of cases above a module."""
    files = (folder / CASES / name for folder in Path(source).parents)
    return next((file for file in files if file.is_file()), None)


def _numbers(span: re.Match[str]) -> str:
    """Expands a span `{1..4}` in the text of a graph to `1,2,3,4`."""
    first, last = map(int, span.groups())
    return ",".join(map(str, range(first, last + 1)))


def _values(content: Any) -> Any:
    """Returns the values of an input; a table describes them by shape and formula."""
    return _counted(**content) if isinstance(content, Mapping) else content


def _counted(
    shape: list[int],
    *,
    modulo: int = 0,
    times: float = 1,
    plus: float = 0,
    sin: bool = False,
    fill: float | None = None,
) -> Array:
    """Returns 0, 1, 2, ... in a shape, optionally scaled or wrapped, or a constant array."""
    if fill is not None:
        return np.full(shape, fill)
    numbers = np.arange(math.prod(shape)).reshape(shape)
    if sin:
        return np.sin(numbers)
    return (numbers % modulo if modulo else numbers) * times + plus


def _example(path: Path, function: str, case: Mapping[str, Any]) -> Example:
    """Creates an example from a case, whose keys are the parameters of `@example`."""
    words = dict(case)
    try:
        words["graph"] = SPAN.sub(_numbers, words["graph"])
        return Example(
            given={name: _values(content) for name, content in words.pop("inputs", {}).items()},
            refuses=Why[words.pop("refuses")] if "refuses" in words else None,
            assume=tuple(Assumption(word) for word in words.pop("assume", ())),
            **words,
        )
    except (TypeError, KeyError, ValueError) as error:
        raise AdapterBug(f"{path}: a case of {function} is invalid: {error}") from None
