# SPDX-License-Identifier: Apache-2.0
"""Measures how the time of each verb grows with the number of elements of a model.

    python -m tools.bench growth [--families "nodes with graphs"] [--verbs check] [--largest 20000]

Each family of models (`growth_families.py`) is made with an eighth, a quarter, a half and all of
the elements. A child process converts, plans or checks each of them after a tiny one, and reports
its processor time. The exponent of the growth between a quarter and all must not exceed 1.15.
A larger one is measured once more, because other work disturbs it. The exit code is 1 if it stays.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import opshift
from onnx import ModelProto

from tools.bench.growth_families import FAMILIES, TARGET
from tools.lib import children

VERBS: dict[str, Callable[[ModelProto], object]] = {
    "convert": lambda model: opshift.convert_version(model, TARGET),
    "plan": lambda model: opshift.plan(model, TARGET),
    "check": opshift.check_model,
}
MOST = 1.15  # the exponent of the growth
SECONDS = 900.0  # for one family and one verb
TINY = 50  # elements of the model that comes first, so that all imports are done


@dataclass(frozen=True, slots=True)
class Growth:
    """The seconds of a verb for each number of elements of a family, or why there are none."""

    family: str
    verb: str
    sizes: tuple[int, ...]
    seconds: tuple[float, ...] = ()
    failure: str = ""

    @property
    def exponent(self) -> float:
        """The exponent between a quarter of the elements and all; infinite without an end."""
        if self.failure:
            return math.inf
        return math.log(self.seconds[-1] / self.seconds[-3]) / math.log(
            self.sizes[-1] / self.sizes[-3]
        )

    def __str__(self) -> str:
        told = self.failure or " ".join(f"{one:8.2f}" for one in self.seconds)
        return f"{self.family:30} {self.verb:8} {self.exponent:5.2f}  {told}"


def seconds(family: str, verb: str, sizes: Sequence[int]) -> list[float]:
    """The processor time of a verb for each number of elements."""
    found = []
    for size in (TINY, *sizes):
        model = FAMILIES[family](size)
        gc.collect()
        began = time.process_time()
        with contextlib.suppress(opshift.OpshiftError):  # an answer like any other
            VERBS[verb](model)
        found.append(time.process_time() - began)
    return found[1:]


def measure(family: str, verb: str, largest: int) -> Growth:
    """The growth of one family for one verb, measured in a child, and again if it is too large."""
    first = _measure(family, verb, largest)
    if first.exponent <= MOST or first.failure:
        return first
    return min(first, _measure(family, verb, largest), key=lambda one: one.exponent)


def _measure(family: str, verb: str, largest: int) -> Growth:
    sizes = tuple(largest // part for part in (8, 4, 2, 1))
    done = children.run(seconds, family, verb, sizes, seconds=SECONDS)
    if not done.ok:
        return Growth(family, verb, sizes, failure=str(done))
    return Growth(family, verb, sizes, tuple(done.value))


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=[*FAMILIES])
    parser.add_argument("--verbs", nargs="+", choices=VERBS, default=[*VERBS])
    parser.add_argument("--largest", type=int, default=20_000)
    args = parser.parse_args(argv)
    too_fast = 0
    for family in args.families:
        for verb in args.verbs:
            found = measure(family, verb, args.largest)
            too_fast += found.exponent > MOST
            print(found, flush=True)
    print(f"{too_fast} of {len(args.families) * len(args.verbs)} grow faster than n ** {MOST}")
    return int(too_fast > 0)
