# SPDX-License-Identifier: Apache-2.0
"""Measures how the CPU time of convert, plan and check grows with the elements of a model.

    python -m tools.bench growth [--most 20000] [--only 'nested*'] [--verbs convert plan check]

Each family of generated models is measured at several sizes; each size has twice the elements of
the one before. The exponent is the slope of the last two doublings. A family whose calls take too
long ends at a smaller size, which the table shows. The exit code is 1 if an exponent is above 1.15.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import gc
import math
import time
from collections.abc import Callable, Sequence

import opshift
from onnx import ModelProto

from tools.lib.growth_families import FAMILIES, LOWERED, TARGET
from tools.lib.program import described

LARGEST_EXPONENT = 1.15
DOUBLINGS = 2  # between the sizes that are compared
REPEATS = 3  # of short calls; the least time counts
SHORT = 1.0  # seconds of CPU
PATIENCE = 15.0  # seconds of CPU for one call; no larger model follows

Verb = Callable[[ModelProto, int], object]
VERBS: dict[str, Verb] = {
    "convert": opshift.convert_version,
    "plan": opshift.plan,
    "check": lambda model, target: opshift.check(model),
}


def main(argv: Sequence[str] | None = None) -> int:
    """The command; the exit code says whether a cost grows too fast."""
    args = _parser().parse_args(argv)
    families = [name for name in FAMILIES if fnmatch.fnmatch(name, args.only)]
    worst = 0.0
    for family in families:
        for verb in args.verbs:
            times = measure(family, VERBS[verb], args.most)
            found = exponent(times)
            worst = max(worst, found)
            row = "  ".join(f"{size:,}: {seconds:.2f} s" for size, seconds in times.items())
            print(f"{family:34} {verb:8} {found:5.2f}   {row}", flush=True)
    print(f"{len(families)} families, largest exponent {worst:.2f}")
    return int(worst > LARGEST_EXPONENT)


def measure(family: str, act: Verb, most: int) -> dict[int, float]:
    """The CPU seconds of a call by the number of elements; the sizes double up to the largest."""
    sizes = [most >> i for i in reversed(range(2 * DOUBLINGS + 3))]
    found: dict[int, float] = {}
    target = LOWERED.get(family, TARGET)
    _seconds(act, FAMILIES[family](sizes[0]), target)  # the imports and the records
    for size in sizes:
        model = FAMILIES[family](size)
        found[size] = _least_seconds(act, model, target)
        if found[size] > PATIENCE:
            break
    return found


def _least_seconds(act: Verb, model: ModelProto, target: int) -> float:
    """The CPU time of a call, the least of several if it is short."""
    first = _seconds(act, model, target)
    if first > SHORT:
        return first
    return min(first, *(_seconds(act, model, target) for _ in range(REPEATS - 1)))


def _seconds(act: Verb, model: ModelProto, target: int) -> float:
    """The CPU time of one call, which may end with a refusal."""
    gc.collect()
    began = time.process_time()
    with contextlib.suppress(opshift.OpshiftError):
        act(model, target)
    return time.process_time() - began


def exponent(times: dict[int, float]) -> float:
    """The exponent of growth between the last size and the one with a quarter of its elements."""
    sizes = sorted(times)
    last, before = sizes[-1], sizes[max(-1 - DOUBLINGS, -len(sizes))]
    if last == before:
        return math.inf  # the smallest model took too long
    return math.log(times[last] / times[before]) / math.log(last / before)


def _parser() -> argparse.ArgumentParser:
    parser = described(__doc__)
    add = parser.add_argument
    add("--most", type=int, default=20_000, metavar="N", help="elements of the largest model")
    add("--only", default="*", metavar="GLOB", help="names of families")
    add("--verbs", nargs="+", default=[*VERBS], choices=VERBS)
    return parser
