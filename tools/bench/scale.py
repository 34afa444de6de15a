# SPDX-License-Identifier: Apache-2.0
"""Converts a zoo of many small models while drivers and workers are killed, and counts the cost.

    python -m tools.bench scale [--models 2000] [--ways local shard dask] [--kills 5]
                                [--write docs/explain/scale.md]

One model in 1,000 is broken, one in 5,000 never ends, one in 5,000 ends its process. Every model
must be converted exactly once, or named with a reason. Otherwise the exit code is 1.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from onnx import ModelProto
from opshift import convert_version
from opshift.errors import OpshiftError
from opshift.zoo import sources
from opshift.zoo.journal import Journal

from tools.bench.page import machine, write_between_marks
from tools.bench.scale_run import Batch, WayResult, killed
from tools.bench.scale_zoo import TARGET, bases, deed, made, vendor, write

MARKS = "<!-- scale:begin -->", "<!-- scale:end -->"
WAYS = {
    "local": (1, ()),
    "shard": (3, ()),
    "dask": (1, ("--engine", "dask", "--memory", "2000")),
    "ray": (1, ("--engine", "ray", "--memory", "2000")),
}
NEEDS = {"dask": "distributed", "ray": "ray"}
SAMPLE = 500  # models that a bare loop converts
DAY = 86_400


@dataclass(frozen=True)
class Costs:
    """Microseconds per model, of a part of the zoo and of the whole."""

    name: str
    part: float
    whole: float


def loop(count: int) -> float:
    """Models per second that a bare loop converts in memory, in one process."""
    found = bases()
    models = [made(found, number) for number in range(min(count, SAMPLE)) if not deed(number)]
    begun = time.monotonic()
    for data in models:
        try:
            convert_version(ModelProto.FromString(data), TARGET)
        except OpshiftError:  # a refusal is an answer, and takes time as well
            continue
    return len(models) / (time.monotonic() - begun)


def costs(batch: Batch) -> list[Costs]:
    """Listing and the journal: whether a model costs more in a large zoo."""
    listing, reading = [], []
    journal = Journal(str(next(batch.to.glob(".opshift/journal*.sqlite"))))
    folders = sorted(path for path in batch.source.iterdir())
    for part in (folders[: max(1, len(folders) // 10)], folders):
        begun = time.monotonic()
        names = [name for folder in part for name, _ in sources.find(str(folder))]
        listing.append((time.monotonic() - begun) / len(names) * 1e6)
        begun = time.monotonic()
        for folder in part:
            for name, _ in sources.find(str(folder)):
                journal.get("", f"{folder.name}/{name}")
        spent = (time.monotonic() - begun) / len(names) * 1e6
        reading.append(max(spent - listing[-1], 0.0))
    journal.close()
    return [Costs("listing", *listing), Costs("journal, reading", *reading)]


def rerun(batch: Batch) -> float:
    """Seconds of a run in which every model is known."""
    begun = time.monotonic()
    for driver in batch.start():
        driver.wait()
    return time.monotonic() - begun


def measured(
    models: int, ways: Sequence[str], kills: int, folder: Path, seed: int = 1
) -> tuple[list[WayResult], list[Costs], float, float]:
    """The result of each way, the costs of the parts, the rerun's seconds and the loop's rate."""
    package = vendor(folder / "vendor")
    source = write(folder / "zoo", models)
    found, parts, again = [], list[Costs](), 0.0
    for way in ways:
        shards, words = WAYS[way]
        batch = Batch(source, folder / way, models, package, shards, words)
        found.append(killed(batch, way, kills, seed))
        print(line(found[-1]), file=sys.stderr, flush=True)
        if way == "local":
            again = rerun(batch)
            parts = costs(batch)
    return found, parts, again, loop(models)


def line(one: WayResult) -> str:
    """A way in one row."""
    fates = ", ".join(f"{count:,} {fate}" for fate, count in sorted(one.fates.items()))
    return (
        f"| {one.way} | {one.models:,} | {one.drivers_killed} | {one.workers_killed} |"
        f" {one.seconds:.0f} | {one.rate:.1f} | {one.most:.0f} | {one.growth:+.1f} |"
        f" {fates} | {len(one.wrong)} |"
    )


def calculated(rate: float) -> list[str]:
    """The calculated costs of larger zoos."""
    lines = ["| models | machine days (calculated) | machines for one day (calculated) |"]
    lines.append("| --- | --- | --- |")
    for models in (10**5, 10**6, 10**8):
        days = models / rate / DAY
        lines.append(f"| {models:,} | {days:,.2f} | {max(1, -(-models // int(rate * DAY))):,} |")
    return lines


def text(
    found: Sequence[WayResult], parts: Sequence[Costs], again: float, bare: float, told: str,
    load: tuple[float, float],
) -> str:  # fmt: skip
    """The tables of the page."""
    rate = max(one.rate for one in found)
    lines = [
        machine(told),
        "",
        f"Other work shared the machine: its load was {load[0]:.1f} before, {load[1]:.1f} after.",
        "",
        "| way | models | drivers killed | workers killed | s | models/s | driver MiB |"
        " growth MiB | outcomes | wrong |",
        f"|{' --- |' * 10}",
        *map(line, found),
        "",
        f"A bare loop of `convert_version` in one process converts {bare:.1f} models/s of this"
        " zoo in memory.",
        "",
        *_of_parts(parts, again),
        f"From the best of these rates, {rate:.1f} models/s on this machine:",
        "",
        *calculated(rate),
    ]
    return "\n".join(lines)


def _of_parts(parts: Sequence[Costs], again: float) -> list[str]:
    """What the way `local` measures, where it was asked for."""
    if not parts:
        return []
    return [
        f"A rerun in which every model is known takes {again:.1f} s.",
        "",
        "| part | µs per model, a tenth of the folders | µs per model, all |",
        "| --- | --- | --- |",
        *(f"| {one.name} | {one.part:.0f} | {one.whole:.0f} |" for one in parts),
        "",
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", type=int, default=2000)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=["local", "shard"])
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dir", type=Path, help="where the models are written")
    parser.add_argument("--write", type=Path, metavar="FILE", help="replace the tables in it")
    args = parser.parse_args(arguments)
    missing = [way for way in args.ways if not importlib.util.find_spec(NEEDS.get(way, "sys"))]
    if missing:
        parser.error(f"{missing[0]} is not installed: pip install 'opshift[{missing[0]}]'")
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="bench-scale-", dir=args.dir) as folder:
        made_of = measured(args.models, args.ways, args.kills, Path(folder), args.seed)
    words = arguments if arguments is not None else sys.argv[1:]
    load = before, os.getloadavg()[0]
    told = shlex.join(["python", "-m", "tools.bench", "scale", *words])
    page = text(*made_of, told, load)
    print(page)
    wrong = [f"{one.way}: {told}" for one in made_of[0] for told in one.wrong]
    print("\n".join(wrong[:50]))
    if args.write:
        write_between_marks(args.write, page, MARKS)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
