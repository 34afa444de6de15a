# SPDX-License-Identifier: Apache-2.0
"""Converts many small models in one process, and prints whether its memory stays flat.

    python -m tools.bench soak [--models 100000] [--threads 8]

The models are the examples of the adapters, one after another, in so many threads. After the last
one a forked child converts, too. The exit code is 1 if memory grows in the second half by more than
5 %, or if a result differs from the first result of that model.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opshift import InvalidModel, Refused, convert_version, testing

STEPS = 10
MOST = 400  # different models


@dataclass(frozen=True, slots=True)
class Soak:
    """The memory in MiB after each step, and how many results were not those of the first time."""

    memory: Sequence[float]
    different: int
    child: int
    seconds: float

    @property
    def growth(self) -> float:
        """The share by which memory grows in the second half."""
        half = self.memory[len(self.memory) // 2]
        return self.memory[-1] / half - 1


def soak(count: int, threads: int) -> Soak:
    """Converts `count` models in so many threads, and one more in a forked child."""
    chosen = random.Random(0).sample(testing.examples("opshift_adapters"), MOST)
    work = [
        (testing.example_model(*one), testing.example_target(*one), one[1].approximate)
        for one in chosen
    ]
    first = [converted(*one) for one in work]

    def differs(number: int) -> bool:
        return converted(*work[number % MOST]) != first[number % MOST]

    begun, memory, different = time.monotonic(), list[float](), 0
    with ThreadPoolExecutor(threads) as pool:
        for step in range(STEPS):
            numbers = range(step * count // STEPS, (step + 1) * count // STEPS)
            different += sum(pool.map(differs, numbers))
            memory.append(resident())
    return Soak(memory, different, forked(lambda: differs(0)), time.monotonic() - begun)


def converted(model: Any, target: Any, approximate: bool) -> str:
    """The digest of the result, or the name of the refusal."""
    try:
        result = convert_version(model, target, allow_approximate=approximate)
    except (InvalidModel, Refused) as error:
        return type(error).__name__
    return hashlib.sha256(result.SerializeToString(deterministic=True)).hexdigest()


def resident() -> float:
    """The resident memory of this process in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def forked(differs: Any) -> int:
    """The exit code of a forked child that converts: 0 if its result is as before."""
    child = os.fork()
    if child == 0:
        code = 2
        try:
            code = int(differs())
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", type=int, default=100_000)
    parser.add_argument("--threads", type=int, default=8)
    args = parser.parse_args(argv)
    done = soak(args.models, args.threads)
    shown = " ".join(f"{size:.1f}" for size in done.memory)
    print(f"{args.models} models, {args.threads} threads, {done.seconds:.0f} s; MiB: {shown}")
    print(f"growth in the second half {done.growth:.2%}; {done.different} results differ")
    print(f"a forked child ended with exit code {done.child}")
    return int(done.growth > 0.05 or done.different > 0 or done.child != 0)


if __name__ == "__main__":
    raise SystemExit(main())
