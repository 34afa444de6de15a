# SPDX-License-Identifier: Apache-2.0
"""Prints the outcomes of a run over the official tests as tables."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from opshift.errors import RefusedNode

OUTCOMES = ("equal", "refused", "interface", "wrong", "invalid", "crashed", "unverified")
DEFECTS = ("wrong", "invalid", "crashed")


@dataclass(frozen=True, slots=True)
class TargetResult:
    """The outcome of one test at one target."""

    test: str
    op: str
    domain: str
    start: int
    to: int
    outcome: str
    detail: str = ""
    refusals: tuple[RefusedNode, ...] = ()
    unexcused: tuple[RefusedNode, ...] = ()

    @property
    def direction(self) -> str:
        return "up" if self.to > self.start else "down"


def report(results: Sequence[TargetResult], title: str) -> Iterator[str]:
    """Yields the tables in Markdown."""
    yield f"### {title}"
    yield ""
    yield from _totals(results)
    yield from _targets(results)
    yield from _reasons(results)
    yield from _unexcused(results)


def failures(results: Sequence[TargetResult]) -> Iterator[str]:
    """Yields a line for each result that is neither equal nor refused."""
    for result in results:
        if result.outcome in (*DEFECTS, "unverified"):
            place = f"{result.test} {result.op} {result.start}->{result.to}"
            yield f"{result.outcome}: {place}: {result.detail}"


def _totals(results: Sequence[TargetResult]) -> Iterator[str]:
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for result in results:
        counts[result.direction, result.domain or "ai.onnx"][result.outcome] += 1
    rows = [
        [direction, domain, *(by_outcome[name] for name in OUTCOMES)]
        for (direction, domain), by_outcome in sorted(counts.items())
    ]
    yield from table(["direction", "domain", *OUTCOMES], rows)


def _targets(results: Sequence[TargetResult]) -> Iterator[str]:
    """Yields a table of the outcomes by target, for the default domain."""
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for result in results:
        if not result.domain:
            counts[result.to][result.outcome] += 1
    rows = [[to, *(count[name] for name in OUTCOMES)] for to, count in sorted(counts.items())]
    yield from table(["target", *OUTCOMES], rows[::-1])


def _reasons(results: Sequence[TargetResult]) -> Iterator[str]:
    """Yields a table of the reasons for refusals, by the first refused node."""
    counts = Counter(
        _reason(result.refusals[0])
        for result in results
        if result.outcome == "refused" and result.refusals
    )
    rows = [[count, *reason] for reason, count in counts.most_common()]
    yield from table(["refused", "blocker", "why", "reason"], rows)


def _unexcused(results: Sequence[TargetResult]) -> Iterator[str]:
    """Yields the refusals whose reason no entry of impossible.toml accepts."""
    open_ones = [result for result in results if result.unexcused]
    if any(result.refusals for result in results):
        yield f"Refused for a reason that `impossible.toml` does not list: {len(open_ones)}."
        yield ""
    tests: dict[tuple[str, ...], set[str]] = defaultdict(set)
    targets: dict[tuple[str, ...], set[int]] = defaultdict(set)
    for result in open_ones:
        for refusal in result.unexcused:
            key = (result.op, *_reason(refusal))
            tests[key].add(result.test)
            targets[key].add(result.to)
    rows = [
        [*key, " ".join(map(str, sorted(targets[key]))), " ".join(sorted(names))]
        for key, names in sorted(tests.items())
    ]
    yield from table(["operator", "blocker", "why", "reason", "targets", "tests"], rows)


def _reason(refusal: RefusedNode) -> tuple[str, str, str]:
    """Returns the operator and version change, the reason, and the message without model names."""
    start, to = refusal.boundary
    text = re.sub(r"'[^']*'", "'…'", refusal.detail)[:160]
    return f"{refusal.op} {start}->{to}", refusal.why.name, text


def table(head: Sequence[object], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """Yields the lines of a table and an empty line; no lines if there are no rows."""
    if not rows:
        return
    yield _row(head)
    yield "|" + "---|" * len(head)
    yield from map(_row, rows)
    yield ""


def _row(cells: Sequence[object]) -> str:
    return "| " + " | ".join(str(cell).replace("|", "/") for cell in cells) + " |"
