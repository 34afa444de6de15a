# SPDX-License-Identifier: Apache-2.0
"""Reads which operators an adapter writes, from a table of its package.

`python -m tools.author index` converts the examples of the adapters and records the written
operators in `writes.txt`. The planner reads the table before the conversion; an operator that the
table lacks is planned when an adapter writes the operator. The table has one row for each set of
operators that an adapter for a runtime writes.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Mapping

TABLE = "writes.txt"


def choices(source: str, row: str) -> tuple[frozenset[str], ...]:
    """Returns the sets of operators that an adapter may write, one set for each kind of result."""
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
