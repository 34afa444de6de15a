# SPDX-License-Identifier: Apache-2.0
"""The table of solved verdicts that is shipped; `python -m tools.author plans` writes it."""

from __future__ import annotations

import functools

from opshift import plugins
from opshift.records import dataclass

TABLE = "plans.txt"
MISSING, UNREVIEWED = "missing", "unreviewed"
IMPOSSIBLE = "impossible"
LAST = "last"  # of an implementation that is not left in a direction
UNSETTLED = frozenset({MISSING, UNREVIEWED})  # another package may have a verdict
DEAD = frozenset({IMPOSSIBLE, *UNSETTLED})


@dataclass(frozen=True, slots=True)
class Edge:
    """One verdict: the boundary of an implementation, and the operators that it may write."""

    start: int
    to: int
    verdict: str
    approximate: bool
    writes: tuple[str, ...]  # as in emits=; the operator itself if it stays
    reach: int = 0  # the farthest version to which the verdicts after this one can lead at best

    @property
    def dead(self) -> bool:
        return self.verdict in DEAD

    def within(self, domain: str) -> list[str]:
        """The operators of one domain that it may write."""
        return [op for other, op in self.keys if other == domain]

    @property
    def keys(self) -> list[tuple[str, str]]:
        """The operators that it may write, with their domains."""
        return [(name.rpartition(".")[0], name.rpartition(".")[2]) for name in self.writes]

    def __str__(self) -> str:
        flag = "approximate" if self.approximate else "exact"
        words = (str(self.start), str(self.to), self.verdict, flag, str(self.reach), *self.writes)
        return " ".join(words)

    @staticmethod
    def read(row: str) -> Edge:
        start, to, verdict, flag, reach, *writes = row.split()
        approximate = flag == "approximate"
        return Edge(int(start), int(to), verdict, approximate, tuple(writes), int(reach))


def shipped(domain: str, op: str, since: int, down: bool) -> Edge | None:
    """The solved verdict of an implementation, if the table has it."""
    table, key = _table(), (domain, op, since, down)
    row = table.get(key)
    if isinstance(row, str):  # a row is parsed when it is needed
        row = table[key] = Edge.read(row)
    return row


def farthest(domain: str, op: str, version: int, down: bool) -> int:
    """The farthest version to which the verdicts lead an operator at best.

    If an operator is replaced by others, the first of them is followed.
    """
    from opshift.opsets import changelog

    known = changelog.default()
    at, name = version, op
    while (here := known.meaning(domain, name, at)) is not None:
        edge = shipped(domain, name, here.operator.since_version, down)
        if edge is None or edge.verdict == LAST:
            break
        if edge.dead:
            return edge.start
        at, own = edge.to, edge.within(domain)
        name = name if name in own else next(iter(own), "")
    return 1 if down else changelog.latest(domain) or version


@functools.cache
def _table() -> dict[tuple[str, str, int, bool], str | Edge]:
    """The solved verdicts that are shipped: `domain op since direction` and an edge to a line.

    The line of an equal form has its place instead of a version, and `form` as its direction.
    """
    found: dict[tuple[str, str, int, bool], str | Edge] = {}
    try:
        table = plugins.data("opshift.convert", TABLE).decode()
    except FileNotFoundError:  # without the table, each verdict is solved when it is met
        return found
    for line in table.splitlines():
        if line.startswith("#"):
            continue
        domain, op, since, direction, row = line.split(" ", 4)
        found[domain.strip("-"), op, int(since), direction == "down"] = row
    return found
