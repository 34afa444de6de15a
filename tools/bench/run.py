# SPDX-License-Identifier: Apache-2.0
"""Measures opshift beside onnx.version_converter and cp on generated models, in one run.

    python -m tools.bench run [--only W3 W4] [--scale small] [--repeats 3]

Every figure is the median of runs in fresh child processes, one after the other. Imports and a
first tiny conversion happen before the clock starts. Peak memory is the high-water mark of the
resident set while the clock runs, the interpreter and its imports included.
"""

from __future__ import annotations

import argparse
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tools.bench.bench_engines import generate, measure
from tools.bench.benchmark import Benchmark, Goal, Measurement, Row, short
from tools.bench.page import machine
from tools.bench.table import growth, imports_line, table
from tools.lib import children


def cases(small: bool) -> Iterator[Benchmark]:
    """All rows; `small` is for a quick look and proves nothing."""
    part = 20 if small else 1
    w1, w2 = 1536 // part, 4096 // part
    goal = Goal(within_two_cp=True, peak_mb=100)
    yield Benchmark("W1", f"{w1} MiB of weights in the file", "file", 11, 21, w1, goal)
    yield Benchmark("W2", f"{w2} MiB of external data, kept", "file", 11, 21, w2)
    for source, target, nodes, first, later in TRANSFORMERS:
        size, goal = nodes // part, Goal(cpu_of_cpp=first, later_of_cpp=later)
        yield Benchmark("W3", f"{size:,} nodes", "memory", source, target, size, goal)
    for nodes, first in ((10_000, 0.25), (50_000, 0.15), (200_000, 0.15)):
        size, title = nodes // part, "nodes, equal weights"
        yield Benchmark("W3=", f"{size:,} {title}", "memory", 13, 18, size, Goal(cpu_of_cpp=first))
    for source, target in ((11, 21), (13, 18)):
        nodes, goal = 2000 // part, Goal(cpu_of_cpp=1.0, later_of_cpp=0.3)
        yield Benchmark("W4", f"{nodes:,} nodes three deep", "memory", source, target, nodes, goal)
    count, goal = 300 // part, Goal(cpu_of_cpp=0.4, later_of_cpp=0.1)
    yield Benchmark("W5", f"{count} small models", "memory", 11, 21, count, goal)
    nodes, goal = 10_000 // part, Goal(cpu_of_cpp=0.08)
    yield Benchmark("W6", f"{nodes:,} nodes, 21 steps", "steps", 7, 28, nodes, goal)
    yield Benchmark("W7", f"{nodes:,} nodes with their own scales", "memory", 13, 18, nodes)
    yield Benchmark("W0", f"{nodes:,} nodes, nothing to do", "memory", 13, 13, nodes)


# The source, the target, the nodes, and the wanted CPU time of a first and a later call by C++.
TRANSFORMERS = (
    (13, 18, 10_000, 0.30, 0.20),
    (13, 18, 50_000, 0.18, 0.15),
    (13, 18, 200_000, 0.18, 0.15),
    (11, 21, 10_000, 0.40, 0.30),
    (21, 13, 10_000, None, None),
    (21, 13, 200_000, None, None),
)


def run_case(case: Benchmark, folder: Path, repeats: int, limit: float) -> Row:
    """Generate, then let the engines take turns; an engine that is slow or fails gets one turn."""
    models = folder / case.name
    if not models.exists():
        made = children.run(generate, case, str(models), seconds=900, start="spawn")
        if not made.ok:
            raise SystemExit(f"{case.workload}: {made}\n{made.trace}")
    engines = ["opshift", "C++", "cp" if case.mode == "file" else "checks"]
    taken: dict[str, list[Measurement]] = {engine: [] for engine in engines}
    for turn in range(repeats):
        for engine in engines:
            if turn and not _worth_repeating(taken[engine][0], limit):
                continue
            taken[engine].append(_turn(engine, case, models, limit, verify=turn == 0))
    return case, {engine: _median(runs) for engine, runs in taken.items()}


def _worth_repeating(first: Measurement, limit: float) -> bool:
    return first.done and not first.bound and first.wall < limit / 4


def _turn(engine: str, case: Benchmark, models: Path, limit: float, verify: bool) -> Measurement:
    for old in (models / "out.onnx", models / "copy"):
        subprocess.run(["rm", "-rf", str(old)], check=True)
    args = (engine, case, str(models), verify)
    outcome = children.run(measure, *args, seconds=limit, start="spawn")
    if outcome.ok:
        measured: Measurement = outcome.value
        return measured
    if outcome.status == "timeout":
        return Measurement(
            limit,
            limit,
            note=f"not finished in {limit:g} s, which is taken as its time",
            bound=True,
        )
    return Measurement(note=short(str(outcome)))


def _median(runs: Sequence[Measurement]) -> Measurement:
    def middle(name: str) -> float:
        return float(statistics.median(getattr(run, name) for run in runs))

    return replace(
        runs[0],
        cpu=middle("cpu"),
        wall=middle("wall"),
        peak_mb=middle("peak_mb"),
        imports=middle("imports"),
        later=middle("later"),
        base_mb=middle("base_mb"),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    args = _parser().parse_args(argv)
    wanted = [c for c in cases(args.scale == "small") if not args.only or c.workload in args.only]
    rows = []
    with tempfile.TemporaryDirectory(prefix="bench-", dir=args.dir) as folder:
        for case in wanted:
            print(f"{case.workload} {case.title} {case.source} -> {case.target}", file=sys.stderr)
            rows.append(run_case(case, Path(folder), args.repeats, args.limit))
            if case.workload in ("W1", "W2"):
                subprocess.run(["rm", "-rf", str(Path(folder) / case.name)], check=True)
    given = sys.argv[1:] if argv is None else argv
    parts = [machine(shlex.join(["python", "-m", "tools.bench", "run", *given])), table(rows)]
    if any(case.workload == "W3" for case, _ in rows):
        parts.append(growth(rows))
    text = "\n\n".join([*parts, imports_line(rows)])
    print(text)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Measure opshift beside the C++ converter and cp.")
    add = parser.add_argument
    add("--only", nargs="+", default=[], metavar="W", help="workloads W1 to W6")
    add("--scale", choices=["small", "full"], default="full")
    add("--repeats", type=int, default=3)
    add("--limit", type=float, default=120.0, help="seconds one run may take")
    add("--dir", type=Path, help="where the models are written (6 GB)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
