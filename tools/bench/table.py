# SPDX-License-Identifier: Apache-2.0
"""Prints the measurements as tables, with the goals."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from tools.bench.benchmark import Benchmark, Measurement, Row


def ratio(ours: Measurement, theirs: Measurement) -> float | None:
    """Returns the ratio of CPU times; None if a time is missing, or ours is a lower bound."""
    return ours.cpu / theirs.cpu if ours.done and not ours.bound and theirs.done else None


def later(ours: Measurement, theirs: Measurement) -> float | None:
    """Returns the ratio of the CPU times of a second call, opshift to the other converter."""
    return ours.later / theirs.later if ours.later and theirs.later else None


def verdict(case: Benchmark, by: dict[str, Measurement]) -> tuple[str, str]:
    """Returns the goals of a row as text, and whether they are met: yes, no or open."""
    goal, ours = case.goal, by["opshift"]
    words, met = [], []
    if goal.within_two_cp:
        most = 2 * by["cp"].wall + 0.2
        words.append(f"wall ≤ 2 cp + 0.2 s = {most:.2f}")
        met.append(ours.wall <= most)
    if goal.peak_mb is not None:
        words.append(f"peak ≤ {goal.peak_mb:g} MiB")
        met.append(ours.peak_mb <= goal.peak_mb)
    if goal.cpu_of_cpp is not None:
        words.append(f"CPU ≤ {goal.cpu_of_cpp:g} of C++")
        share = ratio(ours, by["C++"])
        reached = share is not None and share <= goal.cpu_of_cpp
        unknown = share is None or by["C++"].bound
        if not reached and unknown and ours.done and not ours.bound:
            return ", ".join(words), "open"
        met.append(reached)
    if goal.later_of_cpp is not None:
        words.append(f"later ≤ {goal.later_of_cpp:g}")
        share = later(ours, by["C++"])
        met.append(share is not None and share <= goal.later_of_cpp)
    if not words:
        return "-", "-"
    return ", ".join(words), "yes" if all(met) and ours.done and not ours.bound else "**no**"


COLUMNS = (
    "workload", "conversion", "opshift CPU s", "wall s", "peak MiB", "C++ CPU s", "wall s",
    "peak MiB", "cp wall s", "CPU / C++", "later / C++", "checks / C++", "target", "met",
)  # fmt: skip


def table(rows: Iterable[Row]) -> str:
    """Returns the Markdown table, and the notes about its cells."""
    lines = [_row(COLUMNS), _row(["---"] * len(COLUMNS))]
    notes: dict[str, list[str]] = {}
    for case, by in rows:
        ours, theirs, copy, checks = by["opshift"], by["C++"], by.get("cp"), by.get("checks")
        name = [f"{case.workload} {case.title}", case.steps]
        cells = [*_figures(ours), *_figures(theirs), f"{copy.wall:.2f}" if copy else "-"]
        again = later(ours, theirs)
        cells += [_share(ours, theirs), "-" if again is None else f"{again:.3f}"]
        cells += [_share(checks, theirs), *verdict(case, by)]
        lines.append(_row([*name, *cells]))
        for engine, measured in by.items():
            if measured.note:
                notes.setdefault(f"{engine}: {measured.note}", []).append(" ".join(name))
    footnotes = [f"* {note} ({'; '.join(names)})" for note, names in notes.items()]
    return "\n".join([*lines, "", *footnotes]).rstrip()


def _share(ours: Measurement | None, theirs: Measurement) -> str:
    share = None if ours is None else ratio(ours, theirs)
    return "-" if share is None else f"{'< ' if theirs.bound else ''}{share:.3f}"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _figures(m: Measurement) -> list[str]:
    if m.bound:
        return [f"> {m.cpu:g}", f"> {m.wall:g}", "-"]
    return [f"{m.cpu:.2f}", f"{m.wall:.2f}", f"{m.peak_mb:.0f}"] if m.done else ["failed", "-", "-"]


def growth(rows: Iterable[Row]) -> str:
    """Returns a table of the exponents with which CPU time grows with the size of a model."""
    lines = [_row(["W3", "opshift", "C++", "target", "met"]), _row(["---"] * 5)]
    pairs: dict[tuple[int, int], list[Row]] = {}
    for case, by in rows:
        if case.workload == "W3":
            pairs.setdefault((case.source, case.target), []).append((case, by))
    for (source, target), group in pairs.items():
        ours, span = _exponent(group, "opshift")
        theirs, their_span = _exponent(group, "C++")
        met = "-" if ours is None else "yes" if ours <= 1.1 else "**no**"
        cells = [_exponent_cell(ours, span), _exponent_cell(theirs, their_span)]
        lines.append(_row([f"{source} → {target}", *cells, "≤ 1.1", met]))
    return "\n".join(["Exponent of growth of CPU with the number of nodes:", "", *lines])


def _exponent(group: Sequence[Row], engine: str) -> tuple[float | None, str]:
    seen = [(case.size, by[engine]) for case, by in group]
    points = [(size, m.cpu) for size, m in seen if m.done and not m.bound]
    if len(points) < 2:
        return None, ""
    (n0, t0), (n1, t1) = min(points), max(points)
    return math.log(t1 / t0) / math.log(n1 / n0), f"{n0:,} to {n1:,}"


def _exponent_cell(value: float | None, span: str) -> str:
    return "-" if value is None else f"{value:.2f} ({span})"


def imports_line(rows: Sequence[Row]) -> str:
    """Returns a line about the time and memory of the imports, before the clock started."""
    parts = []
    for engine in ("opshift", "C++"):
        seen = [by[engine] for _, by in rows if by[engine].done and not by[engine].bound]
        if seen:
            seconds = statistics.median(m.imports for m in seen)
            resident = statistics.median(m.base_mb for m in seen)
            parts.append(f"{engine} {seconds:.2f} s, {resident:.0f} MiB resident")
    return f"Before the clock starts: imports of {'; '.join(parts) or 'nothing'} (inputs included)."
