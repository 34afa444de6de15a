# SPDX-License-Identifier: Apache-2.0
"""Converts a zoo of many small models while drivers and workers are killed, and counts the cost.

    python -m tools.bench scale [--models 2000] [--ways local shard s3 dask ray] [--kills 5]
                                [--write docs/explain/scale.md]

One model in 1,000 is broken, one in 5,000 never ends, one in 5,000 ends its process. Every model
must be converted exactly once, or named with a reason. Otherwise the exit code is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import itertools
import os
import shlex
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from google.protobuf.message import DecodeError
from onnx import ModelProto
from opshift import convert_version
from opshift.errors import OpshiftError
from opshift.zoo import sources
from opshift.zoo.journal import Journal, opened

from tools.bench.page import machine, write_between_marks
from tools.bench.scale_places import Bucket, Folder, Server
from tools.bench.scale_run import Batch, WayResult, killed
from tools.bench.scale_zoo import TARGET, vendor, write

MARKS = "<!-- scale:begin -->", "<!-- scale:end -->"
WAYS = {
    "local": (1, ()),
    "shard": (3, ()),
    "s3": (1, ()),
    "dask": (1, ("--engine", "dask", "--memory", "2000")),
    "ray": (1, ("--engine", "ray", "--memory", "2000")),
}
NEEDS = {"dask": "distributed", "ray": "ray", "s3": "moto"}
SAMPLE = 2000  # models that a bare loop converts
DAY = 86_400


@dataclass(frozen=True)
class Costs:
    """Microseconds per model, of a part of the zoo and of the whole."""

    name: str
    part: float
    whole: float


def loop(source: Folder, to: Path) -> float:
    """Models per second that a bare loop reads, converts and writes, in one process."""
    to.mkdir()
    begun, count = time.monotonic(), 0
    for name, data in itertools.islice(source.models(), SAMPLE):
        count += 1
        try:
            model = convert_version(ModelProto.FromString(data), TARGET)
        except (OpshiftError, DecodeError):  # a refusal is an answer, and takes time as well
            continue
        (to / name.replace("/", "-")).write_bytes(model.SerializeToString())
    return count / (time.monotonic() - begun)


def costs(batch: Batch, folder: Path) -> list[Costs]:
    """Listing and the journal: whether a model costs more in a large zoo."""
    listing, reading, writing = [], [], []
    path = next(Path(batch.to.root).glob(".opshift/journal*.sqlite"))
    journal, recipe = Journal(str(path)), recipe_in(path)
    folders = sorted(path for path in Path(batch.source.root).iterdir())
    for part in (folders[: max(1, len(folders) // 10)], folders):
        begun = time.monotonic()
        names = [f"{one.name}/{name}" for one in part for name, _ in sources.find(str(one))]
        listing.append((time.monotonic() - begun) / len(names) * 1e6)
        begun = time.monotonic()
        rows = [journal.get(recipe, name) for name in names]
        reading.append((time.monotonic() - begun) / len(names) * 1e6)
        begun = time.monotonic()
        with opened(str(folder / f"{len(part)}.sqlite")) as other:
            for row in filter(None, rows):
                other.put("", row)
        writing.append((time.monotonic() - begun) / len(names) * 1e6)
    journal.close()
    return [
        Costs("listing", *listing),
        Costs("journal, reading", *reading),
        Costs("journal, writing", *writing),
    ]


def recipe_in(path: Path) -> str:
    """The digest of the recipe that a journal is about."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        return str(db.execute("SELECT recipe FROM outcomes LIMIT 1").fetchone()[0])


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
        told = folder / f"{way}-told"
        batch = Batch(source, Folder(folder / way), models, package, told, shards, words)
        with _in_a_store(batch) if way == "s3" else contextlib.nullcontext():
            found.append(killed(batch, way, kills, seed))
        print(line(found[-1]), file=sys.stderr, flush=True)
        if way == "local":
            again = rerun(batch)
            parts = costs(batch, folder)
    return found, parts, again, loop(source, folder / "loop")


@contextlib.contextmanager
def _in_a_store(batch: Batch) -> Iterator[None]:
    """Moves a batch to a server for S3 as long as it runs."""
    server = Server()
    try:
        zoo, to = Bucket(server.client, "zoo"), Bucket(server.client, "made")
        for name, data in batch.source.models():
            zoo.put(name, data)
        batch.source, batch.to, batch.env = zoo, to, server.env
        yield
    finally:
        server.close()


def line(one: WayResult) -> str:
    """A way in one row."""
    fates = ", ".join(f"{count:,} {fate}" for fate, count in sorted(one.fates.items()))
    return (
        f"| {one.way} | {one.models:,} | {one.drivers_killed} | {one.clusters_lost} |"
        f" {one.workers_killed} |"
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
        "| way | models | drivers killed | clusters lost | workers killed | s | models/s |"
        " driver MiB | growth MiB | outcomes | wrong |",
        f"|{' --- |' * 11}",
        *map(line, found),
        "",
        f"A bare loop in one process reads, converts and writes {bare:.1f} models/s of this zoo"
        f" (its first {SAMPLE:,} models).",
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
