# SPDX-License-Identifier: Apache-2.0
"""Runs a batch whose driver and workers are killed, and checks its results."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from onnx import ModelProto
from opshift.cli.terminal import BAD_INPUT

from tools.bench.scale_places import Place
from tools.bench.scale_zoo import DOMAIN, TARGET, deed, name_of

SECONDS = 3.0  # that one model may take
LOOK = 0.2  # seconds between two looks at a driver
CLUSTERS = ("dask", "ray")
MOST_RUNS = 3  # for each kill of a driver, as a cluster that is lost ends a run earlier
WORKER = 10.0  # seconds between two kills of a worker, at most


@dataclass
class WayResult:
    """The result of one way of converting a zoo."""

    way: str
    models: int
    seconds: float = 0.0
    drivers_killed: int = 0
    clusters_lost: int = 0
    workers_killed: int = 0
    fates: Counter[str] = field(default_factory=Counter)
    memory: list[tuple[float, int]] = field(default_factory=list)  # s and KiB, of the longest run
    wrong: list[str] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Models per second, with all that was done twice because of kills."""
        return self.models / self.seconds

    @property
    def growth(self) -> float:
        """MiB that a driver grew in the second half of the longest run."""
        half = [size for _, size in self.memory[len(self.memory) // 2 :]]
        return (half[-1] - half[0]) / 1024 if half else 0.0

    @property
    def most(self) -> float:
        """MiB of the largest driver."""
        return max((size for _, size in self.memory), default=0) / 1024


@dataclass
class Batch:
    """The runs of `opshift batch` over one zoo, in as many drivers as there are shards."""

    source: Place
    to: Place
    count: int
    vendor: Path
    home: Path  # of the journals of results in a store, and of what the runs tell
    shards: int = 1
    words: tuple[str, ...] = ()
    workers: int = 2
    env: Mapping[str, str] = field(default_factory=dict)

    def commands(self, *more: str) -> list[list[str]]:
        """The command of each driver."""
        found = []
        for shard in range(1, self.shards + 1):
            words = ["batch", self.source.root, self.to.root, "--to", str(TARGET)]
            words += ["--to", f"{DOMAIN}=2", "--timeout", str(SECONDS), "--shard"]
            words += [f"{shard}/{self.shards}", "--workers", str(self.workers), "--json"]
            words += ["--results", str(self.rows(shard))]
            found.append([sys.executable, "-m", "opshift", *words, *self.words, *more])
        return found

    def rows(self, shard: int) -> Path:
        return self.home / f"{shard}.jsonl"

    def start(self, *more: str) -> list[subprocess.Popen[bytes]]:
        self.home.mkdir(exist_ok=True)
        path = [str(self.vendor), *filter(None, sys.path)]
        env = {**os.environ, **self.env, "PYTHONPATH": os.pathsep.join(path)}
        env["XDG_CACHE_HOME"] = str(self.home)
        env.pop("OPSHIFT_IGNORE", None)
        with open(self.home / "told.txt", "ab") as told:
            return [
                subprocess.Popen(one, env=env, stdout=told, stderr=told, start_new_session=True)
                for one in self.commands(*more)
            ]


def killed(batch: Batch, way: str, kills: int, seed: int) -> WayResult:
    """Runs until every model is converted or named; so many drivers are killed on the way."""
    found, chance = WayResult(way, batch.count), random.Random(seed)
    begun = time.monotonic()
    for _ in range(MOST_RUNS * kills):
        if (number := found.drivers_killed // batch.shards) == kills:
            break
        _until(batch, found, chance, enough=batch.count * (number + 1) // (kills + 2))
    _until(batch, found, chance, enough=None)
    _until(batch, found, chance, enough=None, more=("--retry",))
    found.seconds = time.monotonic() - begun
    check(batch, found)
    return found


def _until(
    batch: Batch, found: WayResult, chance: random.Random, enough: int | None,
    more: Sequence[str] = (),
) -> None:  # fmt: skip
    """Runs to the end, or with workers killed until there are enough results: drivers die then."""
    drivers, begun = batch.start(*more), time.monotonic()
    next_kill, memory = begun + chance.uniform(0.5, WORKER), list[tuple[float, int]]()
    while any(driver.poll() is None for driver in drivers):
        time.sleep(LOOK)
        memory.append((time.monotonic() - begun, max(map(_resident, drivers))))
        if enough is not None and time.monotonic() > next_kill:
            next_kill += chance.uniform(0.5, WORKER)
            found.workers_killed += _kill_one(chance.choice(drivers).pid, chance)
        if enough is not None and batch.to.count() >= enough:
            for driver in drivers:
                driver.kill()
                found.drivers_killed += 1
            break
    # A kill may have met what holds a cluster together: the driver says so, and the next goes on.
    lost = enough is not None and found.way in CLUSTERS and batch.to.count() < enough
    for driver in drivers:
        code = driver.wait()
        found.clusters_lost += lost
        if code not in ((1, BAD_INPUT) if lost else (0, 1, -signal.SIGKILL)):
            found.wrong.append(f"a driver ended with {code}: {shlex.join(batch.commands()[0])}")
    found.memory = max(found.memory, [(at, size) for at, size in memory if size], key=len)


def _resident(driver: subprocess.Popen[bytes]) -> int:
    """The resident KiB of a driver; 0 after it has ended."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path(f"/proc/{driver.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmRSS")).split()[1])
    return 0


def _kill_one(driver: int, chance: random.Random) -> bool:
    """Ends one process below a driver, if it has any."""
    below = descendants(driver)
    with contextlib.suppress(ProcessLookupError):
        if below:
            os.kill(chance.choice(below), signal.SIGKILL)
            return True
    return False


def descendants(pid: int) -> list[int]:
    """The descendants of a process; a process that ended meanwhile has none."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():  # each has the children that it started
            for child in (thread / "children").read_text().split():
                found += [int(child), *descendants(int(child))]
    return found


def check(batch: Batch, found: WayResult) -> None:
    """Every model is named once, and converted once or named with a reason."""
    named = Counter[str]()
    fates: dict[str, str] = {}
    for shard in range(1, batch.shards + 1):
        for line in batch.rows(shard).read_text().splitlines():
            row = json.loads(line)
            named[row["model"]] += 1
            fates[row["model"]] = row["outcome"]
    found.fates = Counter(fates.values())
    wanted = {name_of(number): deed(number) for number in range(batch.count)}
    found.wrong += [f"{n} is named {named[n]} times" for n in wanted if named[n] != 1]
    found.wrong += [f"{name} is no model of the zoo" for name in named.keys() - wanted.keys()]
    present = set()
    for name, data in batch.to.models():
        present.add(name)
        graph = ModelProto.FromString(data).graph.name
        if graph != f"model_{int(Path(name).stem[1:])}":
            found.wrong.append(f"{name} holds {graph}")
    ends = {"broken": ("invalid",), "hangs": ("timeout",), "kills": ("crashed",),
            "": ("ok", "skipped", "refused", "invalid", "timeout")}  # fmt: skip
    for name, what in wanted.items():
        fate = fates.get(name, "nothing")
        if fate not in ends[what]:
            found.wrong.append(f"{name}, which {what or 'is whole'}, is {fate}")
        if (fate in ("ok", "skipped")) != (name in present):
            found.wrong.append(f"{name} is {fate}, and its result is {name in present}")
    found.wrong += [f"{name} is a result of nothing" for name in present - wanted.keys()]
