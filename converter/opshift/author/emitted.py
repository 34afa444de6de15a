# SPDX-License-Identifier: Apache-2.0
"""The operators that an adapter is known to write: a package has a table of them.

`python -m tools.author index` converts the examples of the adapters and writes what it saw to
`writes.txt`. The table only looks ahead: a conversion plans an operator that is missing there when
an adapter writes it. A form for a runtime has one row for each set of operators.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Mapping

TABLE = "writes.txt"


def choices(source: str, row: str) -> tuple[frozenset[str], ...]:
    """The sets of other operators that the adapter of a row writes, each for some nodes."""
    return _rows(source.partition(".")[0]).get(row, ())


@functools.cache
def _rows(package: str) -> Mapping[str, tuple[frozenset[str], ...]]:
    found: dict[str, tuple[frozenset[str], ...]] = {}
    for folder in getattr(sys.modules.get(package), "__path__", ()):
        path = os.path.join(folder, TABLE)
        if os.path.isfile(path):
            with open(path, encoding="utf-8") as file:
                for name, *ops in (line.split() for line in file if not line.startswith("#")):
                    found[name] = (*found.get(name, ()), frozenset(ops))
    return found
