# SPDX-License-Identifier: Apache-2.0
"""The shipped table of solved verdicts, which `python -m tools.author update plans` writes."""

from __future__ import annotations

import functools

from opshift import plugins
from opshift.records import dataclass

TABLE = "plans.txt"
MISSING, UNREVIEWED = "missing", "unreviewed"
IMPOSSIBLE = "impossible"
LAST = "last"  # the last implementation of an operator in a direction
UNSETTLED = frozenset({MISSING, UNREVIEWED})  # another package may add a verdict
DEAD = frozenset({IMPOSSIBLE, *UNSETTLED})


@dataclass(frozen=True, slots=True)
class Edge:
    """A verdict: the boundary that it crosses, and the operators that it may write."""

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
        """Returns the operators of one domain that the verdict may write."""
        return [op for other, op in self.keys if other == domain]

    @property
    def keys(self) -> list[tuple[str, str]]:
        """The operators that the verdict may write, with their domains."""
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
    """Returns the solved verdict of an implementation, or None if the table has no row for it."""
    table, key = _table(), (domain, op, since, down)
    row = table.get(key)
    if isinstance(row, str):  # rows are parsed on first use
        row = table[key] = Edge.read(row)
    return row


def farthest(domain: str, op: str, version: int, down: bool) -> int:
    """Returns the farthest version to which the verdicts can convert an operator.

    If a verdict replaces an operator by several operators, only the first of them is followed.
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
    """Reads the shipped table: `domain op since direction` and an edge in each line.

    A line for an equal form has the form's number in place of `since`, and the direction `form`.
    """
    found: dict[tuple[str, str, int, bool], str | Edge] = {}
    try:
        table = plugins.data("opshift.convert", TABLE).decode()
    except FileNotFoundError:  # each verdict is then solved when it is needed
        return found
    for line in table.splitlines():
        if line.startswith("#"):
            continue
        domain, op, since, direction, row = line.split(" ", 4)
        found[domain.strip("-"), op, int(since), direction == "down"] = row
    return found
