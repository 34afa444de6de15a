"""Measures `opshift batch` beside bare loops of convert_file over the same models, in one run.

    python tools/bench_zoo.py [--models 1000] [--repeats 3] [--write docs/performance.md]

The fair baseline of n workers is n loops, each over its part of the zoo, at the same time. `warm`
starts the clock when imports are done and something has been converted; `cold` counts the whole
command, from its start to its end. CPU is that of all processes, servers and workers included.
Sides take turns, and every figure is a median of the turns; an overhead is the median of what each
turn had, as machines are faster in some minutes than in others. What small models became is removed
at the end: for minutes after thousands of files are removed, ext4 takes long to make new ones.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import children
from bench_page import machine, write_between_marks
from zoo_models import LARGE, generate

MARKS = "<!-- zoo:begin -->", "<!-- zoo:end -->"
TARGET = 21
MOST_OVERHEAD, LEAST_RATE = 0.15, 100.0
SUBREAPER = 36  # prctl: orphans below this process become its children


@dataclass(frozen=True)
class Measurement:
    """One side in one turn."""

    wall: float
    cpu: float


# ---------------------------------------------------------------- sides


def loops(source: str, to: str, count: int) -> Measurement:
    """So many loops of convert_file at the same time, ready before the clock starts."""
    context, folders = get_context("spawn"), _folders(to, count)
    start, parts = context.Barrier(count + 1), _parts(source, count)
    work = [
        context.Process(target=_loop, args=(part, folder, start))
        for part, folder in zip(parts, folders, strict=True)
    ]
    for process in work:
        process.start()
    start.wait()
    begun, used = time.perf_counter(), _cpu()
    for process in work:
        process.join()
    wall = time.perf_counter() - begun
    return Measurement(wall, _cpu() - used)


def _loop(paths: Sequence[str], to: str, start: Any) -> None:
    from opshift import convert_file

    for path in paths[:2]:
        convert_file(path, os.path.join(to, "first.onnx"), TARGET)
    start.wait()
    for path in paths:
        convert_file(path, os.path.join(to, os.path.basename(path)), TARGET)


BATCH = """
import sys
from bench_zoo import batch_here
print(*batch_here(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


def batch(source: str, to: str, count: int) -> Measurement:
    """A batch in so many workers, from a program that imports nothing else."""
    command = [sys.executable, "-c", BATCH, source, to, str(count)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)
    wall, cpu = map(float, done.stdout.split())
    return Measurement(wall, cpu)


def batch_here(source: str, to: str, count: int) -> tuple[float, float]:
    """Wall and CPU of a batch, after a first batch of a few models."""
    from opshift.zoo.migrate import local_engine, migrate

    first = Path(to, "first")
    first.mkdir()
    for name in os.listdir(source)[: 2 * count]:
        shutil.copy(os.path.join(source, name), first / name)
    migrate(first, Path(to, "1"), TARGET, engine=local_engine(count))
    begun, used = time.perf_counter(), _cpu()
    summary = migrate(source, Path(to, "2"), TARGET, engine=local_engine(count))
    wall = time.perf_counter() - begun
    assert not summary.failures, str(summary)
    return wall, _cpu() - used


LOOP = """
import os, sys
from opshift import convert_file
to, target, *paths = sys.argv[1:]
for path in paths:
    convert_file(path, os.path.join(to, os.path.basename(path)), int(target))
"""


def cold_loops(source: str, to: str, count: int) -> Measurement:
    """So many commands that do nothing but loop."""
    parts = zip(_parts(source, count), _folders(to, count), strict=True)
    return _commands([["-c", LOOP, folder, str(TARGET), *part] for part, folder in parts])


def cold_batch(source: str, to: str, count: int) -> Measurement:
    """The command as it is typed."""
    words = ["-m", "opshift", "batch", source, to, "--to", str(TARGET), "--workers", str(count)]
    return _commands([[*words, "--quiet"]])


def copy(source: str, to: str, count: int) -> Measurement:
    """The plain copy of the models."""
    del count
    begun, used = time.perf_counter(), _cpu()
    subprocess.run(["cp", "-r", source, to], check=True)
    return Measurement(time.perf_counter() - begun, _cpu() - used)


def _commands(commands: Sequence[Sequence[str]]) -> Measurement:
    """Several commands of Python at the same time, and whatever they leave behind."""
    ctypes.CDLL(None, use_errno=True).prctl(SUBREAPER, 1, 0, 0, 0)
    begun, used = time.perf_counter(), _cpu()
    running = [
        subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL) for words in commands
    ]
    codes = [process.wait() for process in running]
    wall = time.perf_counter() - begun
    assert not any(codes), codes
    while _below(os.getpid()):
        os.wait()
    return Measurement(wall, _cpu() - used)


def _folders(to: str, count: int) -> list[str]:
    folders = [os.path.join(to, str(i)) for i in range(count)]
    for folder in folders:
        os.makedirs(folder)
    return folders


def _parts(source: str, count: int) -> list[list[str]]:
    paths = sorted(os.path.join(source, name) for name in os.listdir(source))
    return [paths[i::count] for i in range(count)]


def _cpu() -> float:
    """Of this process and all below it, those that have ended included."""
    ticks = 0
    for pid in (os.getpid(), *_below(os.getpid())):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _below(pid: int) -> list[int]:
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        for child in Path(f"/proc/{pid}/task/{task}/children").read_text().split():
            found += [int(child), *_below(int(child))]
    return found


# ---------------------------------------------------------------- the run

Side = Callable[[str, str, int], Measurement]
Key = tuple[str, Side, int]  # zoo, side, workers
Found = dict[Key, list[Measurement]]


def plan(turns: int) -> list[Key]:
    """Every side of every zoo, loop and batch next to each other, each first every second time."""
    pairs: list[tuple[Side, Side]] = [(loops, batch), (cold_loops, cold_batch)]
    keys: list[Key] = []
    for turn in range(turns):
        keys += [
            (kind, side, count)
            for kind in ("small", "tiny")
            for pair in pairs
            for count in (1, 2)
            for side in (pair[::-1] if turn % 2 else pair)
        ]
        keys += [("large", side, 1) for side in (copy, loops, batch)]
    return keys


def run(zoos: Path, keys: Sequence[Key]) -> Found:
    """What each side took, every turn in a process of its own."""
    found: Found = {}
    for key in keys:
        kind, side, count = key
        to = tempfile.mkdtemp(prefix="out-", dir=zoos)
        os.sync()
        where = (str(zoos / kind), to, count)
        outcome = children.run(side, *where, seconds=900, start="spawn")
        if not outcome.ok:
            raise SystemExit(f"{kind} {side.__name__} {count}: {outcome}\n{outcome.trace}")
        if kind == "large":
            shutil.rmtree(to)
        m = outcome.value
        found.setdefault(key, []).append(m)
        print(f"{kind} {side.__name__} {count}: {m.wall:.2f} s, CPU {m.cpu:.2f}", file=sys.stderr)
    return found


def median(runs: Sequence[Measurement]) -> Measurement:
    return Measurement(
        statistics.median(m.wall for m in runs), statistics.median(m.cpu for m in runs)
    )


def overheads(theirs: Sequence[Measurement], ours: Sequence[Measurement]) -> Measurement:
    """What a batch took above a loop, the middle of the turns."""
    pairs = zip(theirs, ours, strict=True)
    return median([Measurement(b.wall / a.wall - 1, b.cpu / a.cpu - 1) for a, b in pairs])


# ---------------------------------------------------------------- the table


def table(found: Found, models: int) -> str:
    """Loop and batch side by side."""
    lines = [
        "| zoo | clock | workers | loop wall s | CPU s | batch wall s | CPU s | overhead, wall |"
        " CPU | batch models/s | target | met |",
        f"|{' --- |' * 12}",
    ]
    for (kind, side, count), turns in found.items():
        if side not in (loops, cold_loops) or kind == "large":
            continue
        batches = found[kind, batch if side is loops else cold_batch, count]
        above, theirs, ours = overheads(turns, batches), median(turns), median(batches)
        rate, clock = models / ours.wall, "warm" if side is loops else "cold"
        target, met = goal(kind, side, count, max(above.wall, above.cpu), rate)
        figures = f"{theirs.wall:.2f} | {theirs.cpu:.2f} | {ours.wall:.2f} | {ours.cpu:.2f}"
        lines.append(
            f"| {kind} | {clock} | {count} | {figures} | {above.wall:+.0%} | {above.cpu:+.0%} |"
            f" {rate:.0f} | {target} | {met} |"
        )
    return "\n".join(lines)


def goal(kind: str, side: Side, count: int, overhead: float, rate: float) -> tuple[str, str]:
    """What a row has to reach, and whether it does."""
    if kind != "small" or side is not loops:
        return "-", "-"
    words, met = f"overhead ≤ {MOST_OVERHEAD:.0%}", overhead <= MOST_OVERHEAD
    if count == 2:
        words += f", ≥ {LEAST_RATE:.0f} models/s"
        met = met and rate >= LEAST_RATE
    return words, "yes" if met else "**no**"


def large_line(found: Found) -> str:
    """The large file beside cp."""
    if ("large", copy, 1) not in found:
        return ""
    sides = {"cp": copy, "`convert_file`": loops, "batch": batch}
    figures = [
        f"{name} {m.wall:.2f} s (CPU {m.cpu:.2f})"
        for name, side in sides.items()
        for m in [median(found["large", side, 1])]
    ]
    return f"One file with {LARGE} MiB of weights, warm: {', '.join(figures)}."


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Measure opshift batch beside bare loops.")
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=("small", "tiny", "large"), default=[])
    parser.add_argument("--clock", choices=("warm", "cold"), help="one of them alone")
    parser.add_argument("--dir", type=Path, help="where the models are written (5 GB)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="replace the table in this page")
    args = parser.parse_args()
    alone = {"warm": (copy, loops, batch), "cold": (cold_loops, cold_batch)}.get(args.clock)
    keys = [
        key
        for key in plan(args.repeats)
        if key[0] in (args.only or key[0]) and (alone is None or key[1] in alone)
    ]
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="bench-zoo-", dir=args.dir) as folder:
        for kind in {key[0] for key in keys}:
            made = (kind, args.models, os.path.join(folder, kind))
            children.run(generate, *made, seconds=900, start="spawn")
        found = run(Path(folder), keys)
    parts = [machine(shlex.join(["python", "tools/bench_zoo.py", *sys.argv[1:]]))]
    parts.append(f"{args.models:,} models; the load of the machine before it began: {load:.1f}.")
    parts += filter(None, [table(found, args.models), large_line(found)])
    text = "\n\n".join(parts)
    print(text)
    if args.write:
        write_between_marks(args.write, text, MARKS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
