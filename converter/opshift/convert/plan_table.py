# SPDX-License-Identifier: Apache-2.0
"""The plan table: how each operator version is converted to the next or previous one."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, cast

from opshift import plugins
from opshift.errors import MissingExtra
from opshift.records import dataclass
from opshift.report import COMPATIBLE, IMPOSSIBLE

if TYPE_CHECKING:
    import networkx as nx

Implementation = tuple[str, str, int]  # (domain, op, since), or the key of an IR feature

TABLE = "plans.txt"
MISSING, UNREVIEWED = "missing", "unreviewed"
LAST = "last"  # the last implementation of an operator in a direction
UNSETTLED = frozenset({MISSING, UNREVIEWED})  # another package may add a verdict
DEAD = frozenset({IMPOSSIBLE, *UNSETTLED})


@dataclass(frozen=True, slots=True)
class Edge:
    """How an operator is converted between two versions, and the operators that may result."""

    start: int
    to: int
    verdict: str
    approximate: bool
    writes: tuple[str, ...]  # as in emits=; includes the operator itself if the node stays
    reach: int = 0  # the farthest version that is reachable after this verdict

    @property
    def dead(self) -> bool:
        return self.verdict in DEAD

    def within(self, domain: str) -> list[str]:
        """Returns the operators of one domain that may result."""
        return [op for key_domain, op in self.keys if key_domain == domain]

    def followed(self, domain: str, op: str) -> list[str]:
        """Returns the operators that a conversion follows further; a compatible operator stays."""
        return [op] if self.verdict == COMPATIBLE else self.within(domain)

    @property
    def keys(self) -> list[tuple[str, str]]:
        """The domain and name of each operator that may result."""
        return [(name.rpartition(".")[0], name.rpartition(".")[2]) for name in self.writes]

    def __str__(self) -> str:
        flag = "approximate" if self.approximate else "exact"
        words = (str(self.start), str(self.to), self.verdict, flag, str(self.reach), *self.writes)
        return " ".join(words)

    @staticmethod
    def read(entry: str) -> Edge:
        start, to, verdict, flag, reach, *writes = entry.split()
        approximate = flag == "approximate"
        return Edge(int(start), int(to), verdict, approximate, tuple(writes), int(reach))


def shipped(domain: str, op: str, since: int, down: bool) -> Edge | None:
    """Returns the entry of the table for an operator version, or None if the table has none."""
    table, key = _table(), (domain, op, since, down)
    entry = table.get(key)
    if isinstance(entry, str):  # rows are parsed on first use
        entry = table[key] = Edge.read(entry)
    return entry


# -- solving -------------------------------------------------------------------------------------


def library() -> ModuleType:
    """Returns networkx, which is imported late because the import takes 0.1 seconds."""
    try:
        import networkx
    except ImportError:
        raise MissingExtra(
            "networkx, which plans conversions, is not installed; install it: pip install networkx"
        ) from None
    return cast(ModuleType, networkx)


def solve(graph: nx.DiGraph, end: int, *, down: bool) -> Iterator[tuple[Implementation, Edge]]:
    """Yields each operator version with its `Edge` and the farthest version, at most `end`."""
    best, reach = (min if down else max), dict[object, int]()
    for node in reversed(list(library().topological_sort(graph))):
        after = [reach[following] for following in graph.successors(node)]
        if isinstance(node[1], Edge):
            here, edge = node
            outside = edge.verdict != COMPATIBLE and len(after) < len(edge.writes)
            far = edge.start if edge.dead else end if outside or not after else best(after)
            reach[node] = far
            yield here, replace(edge, reach=far)
        else:
            reach[node] = after[0] if after else end
            if not after:
                yield node, Edge(node[2], node[2], LAST, False, (), end)


@functools.cache
def _table() -> dict[tuple[str, str, int, bool], str | Edge]:
    """Reads the shipped table: each line has `domain op since direction` and an `Edge`.

    A line for a rewrite at the same version has the direction `form`, and a number for the kind of
    rewrite in place of `since`.
    """
    entries: dict[tuple[str, str, int, bool], str | Edge] = {}
    try:
        table = plugins.data("opshift.convert", TABLE).decode()
    except FileNotFoundError:  # each verdict is then solved when it is needed
        return entries
    for line in table.splitlines():
        if line.startswith("#"):
            continue
        domain, op, since, direction, entry = line.split(" ", 4)
        entries[domain.strip("-"), op, int(since), direction == "down"] = entry
    return entries
