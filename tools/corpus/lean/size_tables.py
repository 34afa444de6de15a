# SPDX-License-Identifier: Apache-2.0
"""The figures of the sizes as text, as JSON and as a page."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from .latency import ROUNDS, Speed
from .sizes import ExportPair, Modernized, Total

SHOWN = 15


@dataclass
class Measured:
    """Everything that was measured."""

    pairs: list[ExportPair] = field(default_factory=list)
    totals: list[Total] = field(default_factory=list)
    speeds: list[Speed] = field(default_factory=list)
    modernized: list[Modernized] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return {name: [asdict(one) for one in getattr(self, name)] for name in vars(self)}


def text(found: Measured) -> str:
    """All figures, for a terminal."""
    return "\n".join(_blocks(found))


def page(found: Measured, command: str) -> str:
    """All figures, for the documentation."""
    body = "\n".join(_blocks(found))
    return f"# How lean converted models are\n\nWritten by `{command}`.\n\n{body}\n"


def _blocks(found: Measured) -> Iterator[str]:
    yield from _families(found.pairs)
    for total in found.totals:
        yield from _total(total)
    yield from _latency(found.speeds)
    for one in found.modernized:
        yield from _modernized(one)


def _families(pairs: Sequence[ExportPair]) -> Iterator[str]:
    if not pairs:
        return
    yield "## Beside the exporter's own export at the target opset"
    yield ""
    yield (
        "Nodes without Constant, over all conversions from one export of a model to the opset of"
        " another export of that model."
    )
    yield ""
    rows: list[list[object]] = []
    for way, some in _by_direction(pairs).items():
        converted, exported = (sum(getattr(p, n) for p in some) for n in ("converted", "exported"))
        mean = math.exp(statistics.fmean(math.log(p.ratio) for p in some))
        cells = [way, len(some), exported, converted, f"{converted / exported:.3f}"]
        rows.append([*cells, f"{mean:.3f}", f"{_quantile([p.ratio for p in some], 0.9):.2f}"])
    head = ("direction", "conversions", "exported", "converted", "ratio", "mean", "90th percentile")
    yield from _table(head, rows)
    yield "The families with the most nodes above the exporter's own:"
    yield ""
    more: dict[tuple[str, str], list[ExportPair]] = defaultdict(list)
    for pair in pairs:
        more["up" if pair.start < pair.to else "down", pair.family].append(pair)
    worst = sorted(more.items(), key=lambda item: -_excess(item[1]))[:SHOWN]
    rows = [
        [family, way, sum(p.exported for p in some), sum(p.converted for p in some)]
        for (way, family), some in worst
        if _excess(some) > 0
    ]
    yield from _table(("family", "direction", "exported", "converted"), rows)


def _by_direction(pairs: Sequence[ExportPair]) -> dict[str, list[ExportPair]]:
    up, down = ([p for p in pairs if (p.start < p.to) is way] for way in (True, False))
    return {way: some for way, some in (("up", up), ("down", down)) if some}


def _excess(pairs: Sequence[ExportPair]) -> int:
    return sum(pair.converted - pair.exported for pair in pairs)


def _total(total: Total) -> Iterator[str]:
    yield f"## The whole corpus at opset {total.target}"
    yield ""
    yield (
        f"{total.models} models: {total.before:,} nodes before and {total.after:,} after, ratio"
        f" {total.after / max(total.before, 1):.3f}. Nodes that nothing reads and that the"
        f" conversion left: {total.left_unread}; that came with the models:"
        f" {total.came_unread}. Refused: {', '.join(total.refused) or 'none'}."
    )
    yield ""
    yield from _table(("step", "nodes added"), _largest(total.added))
    yield from _table(("model", "nodes added"), _largest(total.grown))


def _modernized(found: Modernized) -> Iterator[str]:
    yield f"## What `--modernize` finds at opset {found.target}"
    yield ""
    yield (
        f"{found.models} models: {found.without:,} nodes without the option and"
        f" {found.nodes:,} with it."
    )
    yield ""
    rows = [[op, count, found.replaced[op]] for op, count in sorted(found.sites.items())]
    yield from _table(("operator", "nodes written", "nodes replaced"), rows)


def _largest(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [(name, count) for name, count in ordered[:SHOWN] if count > 0]


def _latency(speeds: Sequence[Speed]) -> Iterator[str]:
    if not speeds:
        return
    yield "## Latency in onnxruntime, after divided by before"
    yield ""
    yield (
        "Every model that a conversion changes and that onnxruntime runs before and after it. One"
        " thread, default optimizations, by turns in one process. The fastest of"
        f" {ROUNDS} rounds counts."
    )
    yield ""
    targets = sorted({speed.target for speed in speeds}, reverse=True)
    rows: list[list[object]] = []
    for target in targets:
        ratios = [speed.ratio for speed in speeds if speed.target == target]
        quantiles = [f"{_quantile(ratios, part):.2f}" for part in (0.5, 0.9, 1.0)]
        rows.append([target, len(ratios), *quantiles])
    yield from _table(("opset", "models", "median", "90th percentile", "largest"), rows)
    for target in targets:
        yield f"The slowest at opset {target}:"
        yield ""
        some = sorted((s for s in speeds if s.target == target), key=lambda s: -s.ratio)[:SHOWN]
        slow = [[s.model, _time(s.before), _time(s.after), f"{s.ratio:.2f}"] for s in some]
        yield from _table(("model", "before", "after", "ratio"), slow)


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:,.0f} µs"


def _quantile(values: Sequence[float], part: float) -> float:
    """The smallest value that is at least as large as that part of the values."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]


def _table(head: Sequence[object], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    if not rows:
        return
    yield _row(head)
    yield _row(["---"] * len(head))
    yield from map(_row, rows)
    yield ""


def _row(cells: Sequence[object]) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"
