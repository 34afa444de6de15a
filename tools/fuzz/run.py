# SPDX-License-Identifier: Apache-2.0
"""Calls every public function with broken and odd models, in child processes.

    python -m tools.fuzz run --runs 1000 --seed 1 [--jobs 2] [--seeds frozen adapters nodes corpus]
                             [--verbs check diff lowest accepts targets info modernize]
    python -m tools.fuzz run --replay FILE | --shrink FILE

A run depends only on its number and the functions: it changes a small legal model and draws a call.
The call must end with a valid model, an answer, `Refused`, `InvalidModel` or `BadTarget`, within
limits of time and memory, without leftover files and without changes to other files. Runs that end
in another way are saved, so that they can be replayed.

The exit code is 1 if there are findings.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import onnx
from opshift.zoo.outcome import Fate, Outcome
from opshift.zoo.workers.limits import ModelLimits
from opshift.zoo.workers.supervisor import Supervisor

from tools.fuzz import case as fuzz_case
from tools.fuzz import promises as fuzz_judge
from tools.fuzz import seeds, shrink
from tools.fuzz.case import Case
from tools.lib.program import described

LIMITS = ModelLimits(seconds=600.0, megabytes=2048, recycle=2000, retries=0)
TWICE = 5  # every fifth run is repeated and must give the same answer
SHOWN = 3  # the number of reproducers that are kept for each kind of finding


@dataclass(frozen=True, slots=True)
class FuzzRun:
    """The number of a run, and the folder of the models to change."""

    number: int
    pool: str
    scratch: str
    verbs: tuple[str, ...] = fuzz_case.VERBS

    @property
    def name(self) -> str:
        return str(self.number)

    @property
    def size(self) -> int:
        """Twice the size of the largest model, because the size of this model is not known yet."""
        return 2 * seeds.LARGEST


@dataclass(slots=True)
class Tally:
    """The number of endings of each kind, and the findings."""

    counts: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    found: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    digest: int = 0
    seconds: float = 0.0  # CPU seconds, without checks in grandchildren

    def add(self, outcome: Outcome) -> str:
        """Counts an outcome; returns the code location of a finding, or an empty text."""
        number = int(outcome.name)
        self.seconds += outcome.seconds
        kind = outcome.why if outcome.key else f"FINDING: {outcome.fate}"
        self.counts[fuzz_case.mutator(number)][kind] += 1
        self.digest ^= int(hashlib.sha256(f"{number} {outcome.key}".encode()).hexdigest()[:12], 16)
        if not outcome.key or outcome.why == "FINDING":
            where = outcome.detail.splitlines()[0] if outcome.key else outcome.why
            self.found[where].append(number)
            return where
        return ""

    def __str__(self) -> str:
        kinds = sorted({kind for counter in self.counts.values() for kind in counter})
        rows = [["mutator", *kinds, "runs"]]
        for name, counter in sorted(self.counts.items()):
            rows.append([name, *(str(counter[kind]) for kind in kinds), str(counter.total())])
        return "\n".join("  ".join(cell.rjust(16) for cell in row) for row in rows)


# ---------------------------------------------------------------- in the child


def one(run: FuzzRun) -> Outcome:
    """Generates and judges one case; the `key` of its outcome is the digest of the answer."""
    began = time.process_time()
    case = fuzz_case.make(seeds.kept(run.pool), run.number, run.verbs)
    ending = fuzz_judge.judge(case, run.scratch)
    if not ending.is_finding and run.number % TWICE == 0:
        again = fuzz_judge.judge(case, run.scratch)
        if again != ending:
            ending = fuzz_judge.Ending("FINDING", f"{ending}, then {again}", "two answers")
    detail = f"{ending.where}\n{ending.detail}" if ending.is_finding else ""
    seconds = time.process_time() - began
    return Outcome(run.name, Fate.OK, ending.kind, detail, seconds=seconds, key=ending.digest())


# ---------------------------------------------------------------- in the driver


def fuzz(
    pool: Sequence[bytes],
    numbers: Iterable[int],
    jobs: int,
    limits: ModelLimits = LIMITS,
    verbs: Sequence[str] = fuzz_case.VERBS,
) -> Iterator[Outcome]:
    """Yields the outcome of each run as the runs finish."""
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=_memory()) as folder:
        path = Path(folder, "pool")
        seeds.keep(pool, path)
        runs = (FuzzRun(number, str(path), folder, tuple(verbs)) for number in numbers)
        yield from Supervisor(jobs, limits).run(one, runs)


def _memory() -> str | None:
    """Returns the folder of a file system in memory, or None."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def keep(outcome: Outcome, pool: Sequence[bytes], folder: Path, verbs: Sequence[str]) -> str:
    """Saves a reproducer, and returns the command that replays it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{outcome.name}.json"
    fuzz_case.make(pool, int(outcome.name), verbs).save(path, outcome.detail)
    return f"python -m tools.fuzz run --replay {path}    {' '.join(outcome.detail.split())[:300]}"


def replay(path: Path) -> int:
    """Runs one saved case in this process, and prints how it ended."""
    ending = fuzz_judge.judge(Case.load(path))
    print(f"{ending.kind}: {ending.trace or ending.detail}")
    return int(ending.is_finding)


def make_smaller(path: Path) -> int:
    """Replaces a saved finding by a smaller one; runs in this process, which may crash."""
    case = Case.load(path)
    first = fuzz_judge.judge(case)
    if not first.is_finding:
        print(f"the case has no finding: {first.kind}")
        return 0
    small = shrink.shrunk(case, lambda other: fuzz_judge.judge(other).resembles(first))
    small.save(path, first.detail)
    print(f"{len(case.model)} bytes became {len(small.model)}: {first.where}")
    return 1


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool."""
    args = _parser().parse_args(argv)
    if args.replay:
        return replay(args.replay)
    if args.shrink:
        return make_smaller(args.shrink)
    pool = seeds.pool(args.seeds)
    last = args.seed + args.runs - 1
    which = f"{len(pool)} models {seeds.digest(pool)}, onnx {onnx.__version__}"
    print(f"runs {args.seed} to {last}, {which}")
    tally, began = Tally(), time.monotonic()
    numbers = range(args.seed, last + 1)
    for done, outcome in enumerate(fuzz(pool, numbers, args.jobs, verbs=args.verbs), 1):
        where = tally.add(outcome)
        if where and len(tally.found[where]) <= SHOWN:
            print(keep(outcome, pool, args.save, args.verbs), file=sys.stderr)
        if done % 500 == 0:
            pace = done / (time.monotonic() - began)
            count = sum(map(len, tally.found.values()))
            print(f"{done} runs, {pace:.0f} a second, {count} findings", file=sys.stderr)
    print(tally)
    print(f"answers {tally.digest:012x}, {tally.seconds:.0f} s of CPU")
    for where, numbers in sorted(tally.found.items(), key=lambda item: -len(item[1])):
        print(f"{len(numbers)} x {where}: {' '.join(map(str, sorted(numbers)[:20]))}")
    return int(bool(tally.found))


def _parser() -> argparse.ArgumentParser:
    parser = described(__doc__)
    add = parser.add_argument
    add("--runs", type=int, default=1000, metavar="N")
    add("--seed", type=int, default=seeds.today() * 1_000_000, metavar="N",
        help="the number of the first run; the default depends on the date")  # fmt: skip
    add("--jobs", type=int, default=1, help="the number of child processes")
    add("--seeds", nargs="+", default=seeds.SOURCES, choices=seeds.SOURCES, metavar="SOURCE")
    add("--verbs", nargs="+", default=fuzz_case.VERBS, choices=fuzz_case.VERBS, metavar="VERB")
    add("--save", type=Path, default=Path("fuzz-findings"), metavar="DIR")
    add("--replay", type=Path, metavar="FILE", help="run one saved case again")
    add("--shrink", type=Path, metavar="FILE", help="reduce the model of a saved finding")
    return parser


if __name__ == "__main__":
    sys.exit(main())
