# SPDX-License-Identifier: Apache-2.0
"""The columns of the runtime table that only rules read, which `targets.toml` describes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from opshift.records import dataclass

Cell: TypeAlias = "bool | tuple[str, ...] | Mapping[str, str]"
EMPTY: Mapping[str, Cell] = {"flag": False, "texts": (), "pairs": {}}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the runtime table: its name, the kind of its cells, and a description."""

    name: str
    kind: str
    says: str
    lacks: str = ""  # what a release does not run, with {} for each text of the cell
    default: bool = False
    later: bool = False  # whether the JSON of earlier releases lacks the column

    @property
    def empty(self) -> Cell:
        """The default cell of the column, for a release of which the table has no cell."""
        return self.default or EMPTY[self.kind]

    def read(self, raw: Any) -> Cell:
        """Returns a cell from its form in TOML."""
        if self.kind == "flag":
            return bool(raw)
        return tuple(map(str, raw)) if self.kind == "texts" else dict(raw)


def described(raw: Mapping[str, Mapping[str, Any]]) -> dict[str, Column]:
    """Returns the columns that the table of fields in `targets.toml` describes."""
    return {name: Column(name, **field) for name, field in raw.items()}
