# SPDX-License-Identifier: Apache-2.0
"""What a run over a corpus gave, as tables."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from tools.corpus.model import DEFECTS, ModelVerdict, Status
from tools.lib import markdown_tables


def table(verdicts: Iterable[ModelVerdict], targets: Sequence[int]) -> str:
    """Counts of each outcome, a row per target."""
    counts = Counter((v.target, v.status) for v in verdicts)
    rows = [["target", "models", *Status]]
    for target in targets:
        row = [counts[target, status] for status in Status]
        rows.append([str(target), str(sum(row)), *map(str, row)])
    return _columns(rows)


def refusals_table(verdicts: Iterable[ModelVerdict], target: int) -> str:
    """Why models were refused, most frequent first, one example each."""
    models: Counter[tuple[str, str, tuple[int, int]]] = Counter()
    nodes: Counter[tuple[str, str, tuple[int, int]]] = Counter()
    example: dict[tuple[str, str, tuple[int, int]], str] = {}
    for verdict in verdicts:
        if verdict.target != target:
            continue
        reasons = [(r.why, r.op, r.boundary) for r in verdict.refusals]
        models.update(set(reasons))
        nodes.update(reasons)
        for reason, r in zip(reasons, verdict.refusals, strict=True):
            example.setdefault(reason, f"{verdict.model} {r.node!r}: {_line(r.detail)}")
    rows = [["models", "nodes", "why", "op", "boundary", "example"]]
    for reason, count in sorted(models.items(), key=lambda item: (-item[1], item[0])):
        why, op, (start, to) = reason
        near = example[reason]
        rows.append([str(count), str(nodes[reason]), why, op, f"{start}->{to}", near])
    return _columns(rows) if len(rows) > 1 else ""


def _columns(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def _line(text: str, limit: int = 160) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def report(verdicts: Sequence[ModelVerdict], targets: Sequence[int]) -> str:
    """All tables, and every case that is neither equal nor refused."""
    parts = [table(verdicts, targets)]
    for target in targets:
        if refused := refusals_table(verdicts, target):
            parts.append(f"refused at {target}\n{refused}")
    for status in (Status.UNVERIFIED, Status.REJECTED, *DEFECTS):
        if lines := list(_grouped(v for v in verdicts if v.status is status)):
            parts.append("\n".join([status, *lines]))
    return "\n\n".join(parts)


def _grouped(verdicts: Iterable[ModelVerdict]) -> Iterator[str]:
    """A line per distinct detail, most frequent first, with the cases it stands for."""
    cases: dict[str, list[str]] = {}
    for v in verdicts:
        told = f"[{v.engine or 'convert'}] {_line(v.detail)}"
        cases.setdefault(told, []).append(f"{v.model} -> {v.target}")
    for told, names in sorted(cases.items(), key=lambda item: -len(item[1])):
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        yield f"  {', '.join(names[:3])}{more} {told}"


def markdown(verdicts: Sequence[ModelVerdict], targets: Sequence[int]) -> str:
    """The same for a document: outcomes and engines by target, then reasons by target."""
    counts = Counter((v.target, v.status) for v in verdicts)
    engines = Counter((v.target, v.engine) for v in verdicts if v.status is Status.EQUAL)
    judges = ("onnxruntime", "judge", "round trip")
    rows = [[t, *(counts[t, s] for s in Status), *(engines[t, e] for e in judges)] for t in targets]
    lines = [*markdown_tables.table(["target", *Status, *(f"by {e}" for e in judges)], rows)]
    return "\n".join([*lines, *_reasons(verdicts, targets)])


def _reasons(verdicts: Iterable[ModelVerdict], targets: Sequence[int]) -> Iterator[str]:
    """How many models each reason stops, at each target."""
    models: dict[tuple[str, str, str], dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for verdict in verdicts:
        for r in verdict.refusals:
            start, to = r.boundary
            detail = re.sub(r"'[^']*'", "'…'", _line(r.detail))
            models[f"{r.op} {start}->{to}", r.why, detail][verdict.target].add(verdict.model)
    ranked = sorted(models.items(), key=lambda item: (-sum(map(len, item[1].values())), item[0]))
    used = [t for t in targets if any(t in found for _, found in ranked)]
    rows = [[*key, *(len(found[t]) for t in used)] for key, found in ranked]
    yield from markdown_tables.table(["blocker", "why", "reason", *(f"to {t}" for t in used)], rows)
