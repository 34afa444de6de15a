# SPDX-License-Identifier: Apache-2.0
"""More examples than document an adapter, as data in `tests/adapters/cases/` of its project.

The cases of `PACKAGE.normalize.softmax` are in `normalize/softmax.toml`. They are found from the
folder of the module upwards, so an installed package has none: only tests need them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from opshift import toml
from opshift.assumptions import Assumption
from opshift.author.example import Example, spread
from opshift.author.modern_rules import Mirror
from opshift.author.verdicts import WORDS, converted
from opshift.codes.refusals import Why
from opshift.errors import AdapterBug

CASES = "tests/adapters/cases"


class Declared(Protocol):
    """An adapter or a rule."""

    @property
    def ops(self) -> tuple[str, ...]: ...

    @property
    def run(self) -> Callable[..., Any] | None: ...

    @property
    def examples(self) -> tuple[Example, ...]: ...


def examples_of(declared: Declared) -> tuple[Example, ...]:
    """The examples above a function, and the cases in the file of its module.

    A rule for other words that is made of an adapter has those that the adapter converts. The cases
    of a mirror have the name "FUNCTION mirrored".
    """
    run = declared.run
    path = case_file(run.__module__) if run else None
    if run is None or path is None:
        return declared.examples
    name = f"{run.__name__} mirrored" if isinstance(declared, Mirror) else run.__name__
    cases = spread(_cases(path).get(name, ()), declared.ops)
    made = getattr(declared, "start", None) == WORDS[0] and hasattr(run, "__wrapped__")
    return (*declared.examples, *(converted(cases) if made else cases))


@cache
def _cases(path: Path) -> Mapping[str, tuple[Example, ...]]:
    functions = toml.loads(path.read_text("utf-8"))
    return {
        name: tuple(_example(path, name, case) for case in cases)
        for name, cases in functions.items()
    }


def case_file(module: str) -> Path | None:
    """The file with the cases of a module; None if it has no cases."""
    source = getattr(sys.modules.get(module), "__file__", None)
    name = (module.partition(".")[2] or module).replace(".", "/") + ".toml"
    return _nearest(source, name) if source else None


@cache
def _nearest(source: str, name: str) -> Path | None:
    """The file of this name in the cases of the nearest folder above a module."""
    files = (folder / CASES / name for folder in Path(source).parents)
    return next((file for file in files if file.is_file()), None)


def _example(path: Path, function: str, case: Mapping[str, Any]) -> Example:
    """A case in the words of `@example`."""
    words = dict(case)
    try:
        return Example(
            given=words.pop("inputs", {}),
            refuses=Why[words.pop("refuses")] if "refuses" in words else None,
            assume=tuple(Assumption(one) for one in words.pop("assume", ())),
            **words,
        )
    except (TypeError, KeyError, ValueError) as error:
        raise AdapterBug(f"{path}: a case of {function} is wrong: {error}") from None
