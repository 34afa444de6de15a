# SPDX-License-Identifier: Apache-2.0
"""The operators that an adapter may write: a package has a table of them, beside its index.

`python -m tools.author index` writes the table `writes.txt`. An adapter without a row is read when
it is asked for, which takes long.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from opshift.opsets import schemas

if TYPE_CHECKING:
    from opshift.author.verdicts import Adapter

TABLE = "writes.txt"


def names(adapter: Adapter) -> frozenset[str]:
    """What an adapter may write beside its operator; a later form is `Slice-10`."""
    row = _rows(adapter.source.partition(".")[0]).get(_key(adapter))
    return frozenset(row.split()) if row is not None else spelled(adapter)


def operator_of(form: str) -> str:
    """The operator of a form: `Slice` of `Slice-10`."""
    return form.partition("-")[0]


def since_of(form: str) -> int:
    """The opset in which a form begins; that of its operator if none is written."""
    op, _, since = form.partition("-")
    domain, _, name = op.rpartition(".")
    history = () if since else schemas.history(domain, name)
    return int(since) if since else history[0].since if history and not domain else 0


def spelled(adapter: Adapter) -> frozenset[str]:
    """What the code of an adapter spells."""
    from opshift.author.spelled import operators

    return operators(adapter.run) if adapter.run is not None else frozenset()


def table(adapters: Iterable[Adapter]) -> str:
    """The table of some adapters."""
    rows = {
        _key(one): " ".join(sorted(spelled(one)))
        for one in adapters
        if one.run is not None and one.named is None
    }
    return "".join(f"{key} {rows[key]}".rstrip() + "\n" for key in sorted(rows))


def _key(adapter: Adapter) -> str:
    return f"{adapter.domain}:{adapter.ops[0]}:{adapter.start}:{adapter.to}"


@functools.cache
def _rows(package: str) -> Mapping[str, str]:
    for folder in getattr(sys.modules.get(package), "__path__", ()):
        path = os.path.join(folder, TABLE)
        if os.path.isfile(path):
            with open(path, encoding="utf-8") as file:
                parts = (line.rstrip("\n").partition(" ") for line in file)
                return {key: row for key, _, row in parts}
    return {}
