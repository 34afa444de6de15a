# SPDX-License-Identifier: Apache-2.0
"""Mutates the engine in one place at a time, and runs the tests that reach the mutated function.

    python -m tools.author engine_mutation [--count 100] [--seed 0] [--modules author.bounds]
        [--tests tests/author tests/model]

By default, the tests of a module are in the test file of its name. The tests first run without a
mutant, to record which tests enter which function. Each mutant then runs in a process of its own,
with the tests that enter its function, the fastest first. A mutant is killed if a test fails.
`tools/author/engine_mutation.toml` lists the modules, and equivalent mutants with the reasons.
"""

from __future__ import annotations

import importlib
import os
import random
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from opshift import toml
from opshift.testing.surveys import reasons

from tools.author.mutants import Mutant, mutants
from tools.author.mutation import MutantResult, installed, share
from tools.lib.program import described

ROOT = Path(__file__).parents[2]
EQUIVALENT = Path(__file__).with_suffix(".toml")
MODULES = tuple(toml.loads(EQUIVALENT.read_text()))
SECONDS = 120  # a mutant that takes longer hangs, and counts as killed
CPU_SECONDS = 10  # more than the tests of any function take
BROKEN = 70  # the exit code of a process that could not install its mutant

Entered = dict[tuple[str, str], list[tuple[float, pytest.Item]]]


class Gate:
    """A pytest plugin that runs the mutants instead of the tests."""

    def __init__(self, modules: Sequence[str], count: int, seed: int) -> None:
        self.modules, self.count, self.seed = modules, count, seed
        self.results: list[MutantResult] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Runs a sample of the mutants, each with the tests that enter its function."""
        every = [
            mutant
            for name in self.modules
            for mutant in mutants(importlib.import_module(f"opshift.{name}"))
        ]
        random.Random(self.seed).shuffle(every)
        entered, equal = (
            _entered(session.items, {mutant_of.module for mutant_of in every}),
            set(reasons(EQUIVALENT)),
        )
        for mutant in every[: self.count or None]:
            of_mutant = entered[str(mutant.source.path), mutant.function]
            tests = [item for _, item in sorted(of_mutant, key=lambda pair: pair[0])]
            test = _killer(mutant, tests)
            outcome = "killed" if test else "equivalent" if mutant.title in equal else "survived"
            self.results.append(MutantResult(mutant, outcome, test))
            print(f"{outcome:10} {mutant.title}  [{test or f'{len(tests)} tests'}]", flush=True)
        return True


def nearest(module: str) -> str:
    """Returns the path of the file with the tests of a module."""
    room, *_, name = module.split(".")
    return f"tests/{room}/test_{name}.py"


def _entered(items: Sequence[pytest.Item], modules: set[str]) -> Entered:
    """Returns, for each function, the passing tests that enter it, with their seconds."""
    files = {str(sys.modules[name].__file__) for name in modules}
    entered: Entered = defaultdict(list)
    for item in items:
        reached = set[tuple[str, str]]()

        def note(frame: FrameType, event: str, arg: Any, reached: Any = reached) -> None:
            if event == "call" and frame.f_code.co_filename in files:
                name = frame.f_code.co_qualname.partition(".<locals>")[0]
                reached.add((frame.f_code.co_filename, name))

        begun = time.perf_counter()
        sys.setprofile(note)
        try:
            passed = _passes(item)
        finally:
            sys.setprofile(None)
        if not passed:
            print(f"left out, it fails without a mutant: {item.nodeid}")
        for key in reached if passed else ():
            entered[key].append((time.perf_counter() - begun, item))
    return entered


def _passes(item: pytest.Item) -> bool:
    return not any(report.failed for report in runtestprotocol(item, log=False, nextitem=None))


def _killer(mutant: Mutant, tests: Sequence[pytest.Item]) -> str:
    """Returns the test that fails with the mutant; empty if all tests pass."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(SECONDS)  # the alarm ends the process
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            with installed(mutant):
                failed = next((item.nodeid for item in tests if not _passes(item)), "")
            os.write(writing, failed.encode())
        except BaseException:
            os._exit(BROKEN)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        failed = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == BROKEN:
        raise RuntimeError(f"the mutant cannot be tried: {mutant.title}")
    return f"ends with {status}" if status else failed


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool; the exit code is 1 if a mutant survives or cannot be tried."""
    parser = described(__doc__)
    parser.add_argument("--count", type=int, default=100, help="the number of mutants; 0 means all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--modules", nargs="+", default=MODULES, metavar="MODULE")
    parser.add_argument("--tests", nargs="+", metavar="PATH")
    args = parser.parse_args(argv)
    gate = Gate(args.modules, args.count, args.seed)
    os.chdir(ROOT)
    tests = args.tests or map(nearest, args.modules)
    ended = pytest.main(["-p", "no:cacheprovider", *tests], plugins=[gate])
    killed, meant, part = share(gate.results)
    print(f"{len(gate.results)} mutants: {killed} of {meant} killed ({part:.1%})")
    return int(killed < meant or ended == pytest.ExitCode.INTERNAL_ERROR)


if __name__ == "__main__":
    raise SystemExit(main())
