# SPDX-License-Identifier: Apache-2.0
"""Measures opshift, onnx.version_converter and cp on generated models, in one run.

    python -m tools.bench run [--only W3 W4] [--scale small] [--repeats 3]
    python -m tools.bench run --corpus FOLDER [--to 21 13]

With `--corpus`, real models are measured instead, grouped by their number of nodes. FOLDER has a
folder for each model, with a model.onnx. A model is left out if one of the converters fails.

Every figure is the median of runs in fresh child processes, one after the other. Imports and a
first tiny conversion happen before the clock starts. Peak memory is the largest resident set while
the clock runs, including the interpreter and its imports.
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
from tools.bench.machine import machine
from tools.bench.table import growth, imports_line, table
from tools.lib import children
from tools.lib.program import described


def cases(small: bool) -> Iterator[Benchmark]:
    """Yields all rows; with `small`, the models are too small for meaningful figures."""
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


# Source, target, nodes, and the wanted share of C++'s CPU time for a first and a later call.
TRANSFORMERS = (
    (13, 18, 10_000, 0.30, 0.20),
    (13, 18, 50_000, 0.18, 0.15),
    (13, 18, 200_000, 0.18, 0.15),
    (11, 21, 10_000, 0.40, 0.30),
    (21, 13, 10_000, None, None),
    (21, 13, 200_000, None, None),
)


BANDS = ((1, 9), (10, 23), (24, 99), (100, 399), (400, sys.maxsize), (1, sys.maxsize))


def real(corpus: Path, targets: Sequence[int]) -> Iterator[Benchmark]:
    """Yields the rows of real models: one for each group of sizes, and one for all models."""
    for to in targets:
        for least, most in BANDS:
            size = f"{least} to {most}" if most < sys.maxsize else f"{least} or more"
            title = f"real models of {size} nodes"
            yield Benchmark("R", title, "memory", 0, to, least, corpus=str(corpus), most=most)


def run_case(case: Benchmark, folder: Path, repeats: int, limit: float) -> Row:
    """Generates the models and runs the engines in turns; a slow engine gets one turn."""
    models = folder / case.name
    if not models.exists():
        generated = children.run(generate, case, str(models), seconds=900, start="spawn")
        if generated.error:
            raise SystemExit(f"{case.workload}: {generated.error}\n{generated.trace}")
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
    if not outcome.error:
        measured: Measurement = outcome.value
        return measured
    if outcome.late:
        note = f"not finished in {limit:g} s, which is taken as its time"
        return Measurement(limit, limit, note=note, bound=True)
    return Measurement(note=short(outcome.error))


def _median(runs: Sequence[Measurement]) -> Measurement:
    names = ("cpu", "wall", "peak_mb", "imports", "later", "base_mb")
    middle = {name: statistics.median(getattr(run, name) for run in runs) for name in names}
    return replace(runs[0], **middle)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool."""
    args = _parser().parse_args(argv)
    every = real(args.corpus, args.to) if args.corpus else cases(args.scale == "small")
    wanted = [case for case in every if not args.only or case.workload in args.only]
    rows = []
    with tempfile.TemporaryDirectory(prefix="bench-", dir=args.dir) as folder:
        for case in wanted:
            print(f"{case.workload} {case.title} {case.steps}", file=sys.stderr)
            rows.append(run_case(case, Path(folder), args.repeats, args.limit))
            if case.workload in ("W1", "W2"):
                subprocess.run(["rm", "-rf", str(Path(folder) / case.name)], check=True)
    words = sys.argv[1:] if argv is None else argv
    parts = [machine(shlex.join(["python", "-m", "tools.bench", "run", *words])), table(rows)]
    if any(case.workload == "W3" for case, _ in rows):
        parts.append(growth(rows))
    text = "\n\n".join([*parts, imports_line(rows)])
    print(text)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = described(__doc__)
    add = parser.add_argument
    add("--only", nargs="+", default=[], metavar="W", help="workloads W1 to W6")
    add("--scale", choices=["small", "full"], default="full")
    add("--repeats", type=int, default=3)
    add("--limit", type=float, default=120.0, help="seconds one run may take")
    add("--corpus", type=Path, metavar="FOLDER", help="measure the real models of this folder")
    add("--to", type=int, nargs="+", default=[21, 13], help="the target versions for real models")
    add("--dir", type=Path, help="the folder for the models (6 GB)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
