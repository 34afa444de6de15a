# SPDX-License-Identifier: Apache-2.0
"""Generates the index of the shipped adapters, which lists the adapters of each module.

A second table lists the operators that each adapter writes for the examples. Until a new or changed
adapter is in the index, every conversion imports its module.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

import opshift_adapters
from opshift.author import index, registry

from tools.author import example_results

PATH = Path(str(opshift_adapters.__file__)).parent / index.INDEX


def files() -> Mapping[Path, Callable[[], str]]:
    """Returns the two generated files; the table is generated together with the index."""
    return {
        PATH: lambda: registry.index_of(opshift_adapters),
        PATH.with_name(index.WRITES): lambda: table(opshift_adapters.__name__),
    }


def table(package: str) -> str:
    """Lists the operators that the adapters of a package write for their examples."""
    rows = example_results.of_package(package).written.items()
    lines = (" ".join((row, *sorted(ops))) for row, sets in rows for ops in _rows(row, sets))
    return "".join(f"{line}\n" for line in sorted(lines))


def _rows(row: str, sets: Collection[frozenset[str]]) -> Iterator[frozenset[str]]:
    """Yields each set of operators that an adapter for runtimes writes; one union for others."""
    if example_results.is_for_runtimes(row):
        # Some nodes only become constants, so that no operator is written.
        yield from filter(None, sets) if any(sets) else sets
    elif every := frozenset[str]().union(*sets):
        yield every
