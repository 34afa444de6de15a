# SPDX-License-Identifier: Apache-2.0
"""Measures `opshift batch` beside bare loops of convert_file over the same models, in one run.

    python -m tools.bench zoo [--models 1000] [--repeats 3] [--write docs/explain/performance.md]

The fair baseline of n workers is n loops, each over its part of the zoo, at the same time. Loops
and batch run side by side in slices of time (`slices.py`); every figure is the median of the
repeats, an overhead that of what each repeat had. What small models became is removed at the end:
for minutes after thousands of files are removed, ext4 takes long to make new ones.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.bench.page import machine, write_between_marks
from tools.bench.slices import TurnTimes, side_by_side
from tools.bench.zoo_models import LARGE, large, small

MARKS = "<!-- zoo:begin -->", "<!-- zoo:end -->"
MOST_OVERHEAD, LEAST_RATE = 0.15, 100.0
SIDES = str(Path(__file__).with_name("zoo_sides.py"))

Turn = dict[str, TurnTimes]  # by side


def measure(source: Path, sides: Sequence[str], count: int) -> Turn:
    """What each side took for the same models, each into a folder of its own."""
    os.sync()
    commands = {}
    for side in sides:
        to = tempfile.mkdtemp(prefix=f"{side}-", dir=source.parent)
        commands[side] = [sys.executable, SIDES, side, str(source), to, str(count)]
    turn = side_by_side(commands)
    for side, taken in turn.items():
        print(
            f"{source.name} {count} {side}: {taken.wall:.2f} s, CPU {taken.cpu:.2f}",
            file=sys.stderr,
        )
    return turn


def of_small(zoo: Path, repeats: int) -> dict[int, list[Turn]]:
    """Loops beside a batch, with one worker and with two; each side begins every second time."""
    found: dict[int, list[Turn]] = {1: [], 2: []}
    for repeat in range(repeats):
        sides = ("batch", "loops") if repeat % 2 else ("loops", "batch")
        for count, turns in found.items():
            turns.append(measure(zoo, sides, count))
    return found


def of_large(zoo: Path, repeats: int) -> list[Turn]:
    """A large file, which one side at a time has to itself."""
    turns = []
    for _ in range(repeats):
        turn: Turn = {}
        for side in ("copy", "loops", "batch"):
            turn |= measure(zoo, [side], 1)
            for folder in zoo.parent.glob(f"{side}-*"):
                shutil.rmtree(folder)
        turns.append(turn)
    return turns


def median(turns: Sequence[TurnTimes]) -> TurnTimes:
    """The middle of the walls, and of the CPU."""
    return TurnTimes(
        statistics.median(m.wall for m in turns), statistics.median(m.cpu for m in turns)
    )


def overhead(turn: Turn) -> TurnTimes:
    """What a batch took above the loops."""
    a, b = turn["loops"], turn["batch"]
    return TurnTimes(b.wall / a.wall - 1, b.cpu / a.cpu - 1)


def table(found: dict[int, list[Turn]], models: int) -> str:
    """Loops and batch side by side."""
    lines = [
        "| workers | loops wall s | CPU s | batch wall s | CPU s | overhead, wall | CPU |"
        " batch models/s | target | met |",
        f"|{' --- |' * 10}",
    ]
    for count, turns in found.items():
        theirs, ours = (median([turn[side] for turn in turns]) for side in ("loops", "batch"))
        above, rate = median(list(map(overhead, turns))), models / ours.wall
        target, met = f"wall ≤ +{MOST_OVERHEAD:.0%}", above.wall <= MOST_OVERHEAD
        if count == 2:
            target += f", ≥ {LEAST_RATE:.0f} models/s"
            met = met and rate >= LEAST_RATE
        lines.append(
            f"| {count} | {theirs.wall:.2f} | {theirs.cpu:.2f} | {ours.wall:.2f} | {ours.cpu:.2f} |"
            f" {above.wall:+.1%} | {above.cpu:+.1%} | {rate:.0f} | {target} |"
            f" {'yes' if met else '**no**'} |"
        )
    return "\n".join(lines)


def large_line(turns: Sequence[Turn]) -> str:
    """The large file beside cp."""
    sides = {"cp": "copy", "`convert_file`": "loops", "batch": "batch"}
    taken = {name: median([turn[side] for turn in turns]) for name, side in sides.items()}
    figures = [f"{name} {m.wall:.2f} s (CPU {m.cpu:.2f})" for name, m in taken.items()]
    return f"One file with {LARGE} MiB of weights: {', '.join(figures)}."


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Measure opshift batch beside bare loops.")
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--dir", type=Path, help="where the models are written (7 GB)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="replace the table in this page")
    args = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="bench-zoo-", dir=args.dir) as folder:
        heavy = of_large(large(Path(folder, "large")), args.repeats)
        found = of_small(small(Path(folder, "small"), args.models), args.repeats)
    parts = [machine(shlex.join(["python", "-m", "tools.bench", "zoo", *sys.argv[1:]]))]
    parts.append(f"{args.models:,} models; the load of the machine before it began: {load:.1f}.")
    parts += [table(found, args.models), large_line(heavy)]
    text = "\n\n".join(parts)
    print(text)
    if args.write:
        write_between_marks(args.write, text, MARKS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
