# SPDX-License-Identifier: Apache-2.0
"""Generates the index of the shipped adapters, which lists the declarations of each module.

Beside it stands the table of the operators that each adapter writes for the examples. Until a new
or changed adapter is in the index, every conversion imports its module.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

import opshift_adapters
from opshift.author import emitted, index, registry

from tools.author import example_results

PATH = Path(str(opshift_adapters.__file__)).parent / index.INDEX


def files() -> Mapping[Path, Callable[[], str]]:
    """The generated files; the second one is made with the first."""
    return {
        PATH: lambda: registry.index_of(opshift_adapters),
        PATH.with_name(emitted.TABLE): lambda: table(opshift_adapters.__name__),
    }


def table(package: str) -> str:
    """The operators that the adapters of a package write when their examples are converted."""
    rows = example_results.of_package(package).written.items()
    lines = (" ".join((row, *sorted(ops))) for row, sets in rows for ops in _rows(row, sets))
    return "".join(f"{line}\n" for line in sorted(lines))


def _rows(row: str, sets: Collection[frozenset[str]]) -> Iterator[frozenset[str]]:
    """The sets of operators of a form for runtimes; for other adapters, one set of all."""
    if example_results.is_for_runtimes(row):
        # Some nodes become a constant only.
        yield from filter(None, sets) if any(sets) else sets
    elif every := frozenset[str]().union(*sets):
        yield every
