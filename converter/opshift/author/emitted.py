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
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opshift.author.verdicts import Adapter

TABLE = "writes.txt"


def names(adapter: Adapter) -> frozenset[str]:
    """The other operators that an adapter writes."""
    return _rows(adapter.source.partition(".")[0]).get(key(adapter), frozenset())


def key(adapter: Adapter) -> str:
    """The name of the row of an adapter."""
    return f"{adapter.domain}:{adapter.ops[0]}:{adapter.start}:{adapter.to}"


@functools.cache
def _rows(package: str) -> Mapping[str, frozenset[str]]:
    for folder in getattr(sys.modules.get(package), "__path__", ()):
        path = os.path.join(folder, TABLE)
        if os.path.isfile(path):
            with open(path, encoding="utf-8") as file:
                rows = (line.split() for line in file if not line.startswith("#"))
                return {name: frozenset(ops) for name, *ops in rows}
    return {}
