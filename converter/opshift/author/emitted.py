# SPDX-License-Identifier: Apache-2.0
"""The operators that an adapter is known to write: a package has a table of them.

`python -m tools.author index` converts the examples of the adapters and writes what it saw to
`writes.txt`. The table only looks ahead: a conversion plans an operator that is missing there when
an adapter writes it.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Mapping

TABLE = "writes.txt"


def names(source: str, row: str) -> frozenset[str]:
    """The other operators that the adapter of a row writes."""
    return _rows(source.partition(".")[0]).get(row, frozenset())


@functools.cache
def _rows(package: str) -> Mapping[str, frozenset[str]]:
    for folder in getattr(sys.modules.get(package), "__path__", ()):
        path = os.path.join(folder, TABLE)
        if os.path.isfile(path):
            with open(path, encoding="utf-8") as file:
                rows = (line.split() for line in file if not line.startswith("#"))
                return {name: frozenset(ops) for name, *ops in rows}
    return {}
