# SPDX-License-Identifier: Apache-2.0
"""Runs conversions at the same time in chosen orders of their steps, and kills one of them.

A step is a call that looks at a file, changes one, or takes a lock. Each conversion is a process of
its own that stops before each step until it is its turn. The first conversion takes some steps,
then the second one, then the first one continues (or is killed), and so on: with two conversions,
all orders with up to three changes of turns are run. Orders of three conversions are random.

Afterwards, the results must be those of the same conversions one after the other, in some order and
without the failed ones. The same conversions must then run again, one after the other, and leave no
file behind. Needs fork.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper, parser

DONE, TOLD, BUG = 0, 7, 8
STEP, WAITS, ENDED = b"s", b"w", b""
CALLS = ("open", "stat", "lstat", "listdir", "scandir", "link", "replace", "unlink", "mkdir",
         "rmdir", "fsync", "close")  # fmt: skip
ALL = 1 << 30
SIZE = 3000
TEXT = f"""<ir_version: 7, opset_import: ["": 12]> g (float[{SIZE}] x) => (float[{SIZE}] y)
{{ h = Add(x, w) y = Softmax<axis = 0>(h) }}"""
PATIENCE = 10_000  # turns in which every process only waits


def save(path: Path, location: str, offset: int, seed: int) -> None:
    """Saves a model with one weight, which is in its own file."""
    path.parent.mkdir(exist_ok=True)
    proto, data = parser.parse_model(TEXT), np.random.RandomState(seed).rand(SIZE).astype("<f4")
    tensor = proto.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[SIZE])
    tensor.data_location = TensorProto.EXTERNAL
    entries = {"location": location, "offset": offset, "length": data.nbytes}
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=str(value))
    (path.parent / location).write_bytes(bytes(offset) + data.tobytes())
    path.write_bytes(proto.SerializeToString())


def look(folder: Path, results: Sequence[str]) -> tuple[object, ...]:
    """Returns the state of each result: absent, a model with its weights, or broken."""
    return tuple(_look(folder / name) for name in results)


def _look(path: Path) -> object:
    if not path.exists():
        return None
    try:
        model = onnx.load(path)
        weights = numpy_helper.to_array(model.graph.initializer[0]).tobytes()
    except Exception as error:
        return f"broken: {error}"
    return model.opset_import[0].version, model.ir_version, weights


def needless(folder: Path) -> set[str]:
    """Returns the files in a folder that are neither models nor data files of models."""
    files = {path for path in folder.rglob("*") if path.is_file()}
    needed = {path for path in files if path.suffix == ".onnx"}
    for model in list(needed):
        for tensor in onnx.load(model, load_external_data=False).graph.initializer:
            needed |= {model.parent / e.value for e in tensor.external_data if e.key == "location"}
    return {str(path.relative_to(folder)) for path in files - needed}


@dataclass(frozen=True)
class FileConversion:
    """A conversion of a source of a scenario."""

    source: str
    result: str
    target: int
    external: str = "keep"
    in_place: bool = False

    def run(self, folder: Path) -> None:
        from opshift import convert_file

        convert_file(
            folder / self.source,
            folder / self.result,
            self.target,
            external=self.external,
            in_place=self.in_place,
        )


@dataclass(frozen=True)
class Race:
    """The files at the start, and the conversions that run at the same time."""

    name: str
    files: tuple[tuple[str, str, int], ...]  # a model, its data file, and the seed of its weights
    acts: tuple[FileConversion, ...]

    @property
    def results(self) -> list[str]:
        return sorted({act.result for act in self.acts})

    def fresh(self, folder: Path) -> Path:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name, location, seed in self.files:
            save(folder / name, location, 64, seed)
        return folder


A, B = ("a.onnx", "a.bin", 1), ("b.onnx", "b.bin", 2)
OLD = ("out.onnx", "out.onnx.data", 3)


def _both(external: str, *, other: str = "b.onnx") -> tuple[FileConversion, FileConversion]:
    return (
        FileConversion("a.onnx", "out.onnx", 17, external),
        FileConversion(other, "out.onnx", 18, external),
    )


SCENARIOS = (
    Race("two new results", (A, B), _both("inline")),
    Race("two new pairs", (A, B), _both("one-file")),
    Race("two pairs over a pair", (A, B, OLD), _both("one-file")),
    Race("two pairs of equal weights", (A, B), _both("one-file", other="a.onnx")),
    Race("equal weights over a pair", (("a.onnx", "a.bin", 3), B, OLD), _both("one-file")),
    Race("a pair and one file over a pair", (A, B, OLD),
             (_both("one-file")[0], _both("inline")[1])),
    Race("two in place", (OLD,),
             (FileConversion("out.onnx", "out.onnx", 17, "one-file", True),
              FileConversion("out.onnx", "out.onnx", 18, "one-file", True))),
    Race("in place and over it", (A, OLD),
             (FileConversion("out.onnx", "out.onnx", 17, "inline", True),
              FileConversion("a.onnx", "out.onnx", 18, "one-file"))),
    Race("data of another model", (("a.onnx", "out.onnx.data", 3), B, OLD),
             (FileConversion("b.onnx", "out.onnx", 18, "one-file"),
              FileConversion("a.onnx", "new.onnx", 17, "keep"))),
    Race("a copy of old data", (B, OLD, ("sub/a.onnx", "out.onnx.data", 3)),
             (FileConversion("b.onnx", "out.onnx", 18, "one-file"),
              FileConversion("sub/a.onnx", "new.onnx", 17, "copy"))),
    Race("three pairs over a pair", (A, B, OLD),
             (*_both("one-file"), FileConversion("b.onnx", "out.onnx", 16, "one-file"))),
)  # fmt: skip


class StoppedProcess:
    """A conversion in a child process that stops after the steps of its turn."""

    def __init__(self, act: FileConversion, folder: Path) -> None:
        self._said, said = os.pipe()
        turn, self._turn = os.pipe()
        self.code: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._said)
            os.close(self._turn)
            _convert(act, folder, said, turn)
        os.close(said)
        os.close(turn)
        self.state = os.read(self._said, 1)

    def advance(self, steps: int = ALL) -> bytes:
        """Lets the child take this number of steps, unless it ends or waits earlier."""
        os.write(self._turn, steps.to_bytes(4, "little"))
        self.state = os.read(self._said, 1)
        if self.state == ENDED:
            self._end()
        return self.state

    def kill(self) -> None:
        """Kills the child if it has not ended."""
        if self.code is None:
            os.kill(self.pid, signal.SIGKILL)
            self.state = ENDED
            self._end()

    def _end(self) -> None:
        self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self._said)
        os.close(self._turn)


class Steps:
    """In the child: counts the steps of a turn, and all steps."""

    def __init__(self, folder: Path, said: int, turn: int) -> None:
        self.folder, self.said, self.turn = str(folder), said, turn
        self.left = 0

    def take(self) -> None:
        """Takes a step, which waits for the next turn if this turn is over."""
        while self.left == 0:
            self.stop(STEP)
        self.left -= 1

    def stop(self, why: bytes) -> None:
        """Waits for the next turn."""
        _write(self.said, why)
        self.left = int.from_bytes(os.read(self.turn, 4), "little")

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Wraps a call that is a step if it concerns the folder."""

        def stopped(*words: Any, **more: Any) -> Any:
            if isinstance(words[0], int) or str(words[0]).startswith(self.folder):
                self.take()
            return call(*words, **more)

        return stopped


_write = os.write


def _convert(act: FileConversion, folder: Path, said: int, turn: int) -> None:
    """In the child: converts, and stops before each step in the folder."""
    code, steps = BUG, Steps(folder, said, turn)
    try:
        from opshift.model.bytes import leftovers

        leftovers._swept.clear()  # it would be empty in a process that was not forked
        steps.stop(STEP)
        for name in CALLS:
            setattr(os, name, steps.around(getattr(os, name)))
        fcntl.flock = steps.around(fcntl.flock)
        time.sleep = lambda seconds: steps.stop(WAITS)
        act.run(folder)
        code = DONE
    except OSError:
        code = TOLD
    except Exception as error:
        code = TOLD if hasattr(error, "code") else BUG
    finally:
        os._exit(code)


@dataclass(frozen=True)
class Turn:
    """One turn: the conversion, its number of steps, and whether it is killed afterwards."""

    who: int
    steps: int
    killed: bool = False


def steps_of(scenario: Race, number: int, folder: Path) -> int:
    """Returns the number of steps of a conversion that runs alone."""
    process = StoppedProcess(scenario.acts[number], scenario.fresh(folder))
    count = 0
    while process.advance(1) != ENDED:
        count += 1
    if process.code != DONE:
        raise SystemExit(f"{scenario.name}: a conversion fails alone")
    return count


def orders(scenario: Race, folder: Path, chance: random.Random, most: int) -> list[list[Turn]]:
    """The orders of turns to try: all of them, or a sample."""
    acts = range(len(scenario.acts))
    steps = [steps_of(scenario, number, folder) for number in acts]
    if len(steps) > 2:
        return [
            [Turn(chance.choice(acts), chance.randrange(1, max(steps))) for _ in range(8)]
            for _ in range(min(most, 2000))
        ]
    every = [
        [Turn(act, i), Turn(1 - act, j), Turn(act, 0, killed)]
        for act in acts
        for i in range(steps[act] + 1)
        for j in range(steps[1 - act] + 1)
        for killed in (False, True)
    ]
    return chance.sample(every, min(most, len(every)))


def run(scenario: Race, folder: Path, turns: Sequence[Turn]) -> list[int]:
    """The exit codes of the conversions in an order."""
    processes = [StoppedProcess(act, folder) for act in scenario.acts]
    try:
        for turn in turns:
            process = processes[turn.who]
            if process.state != ENDED and turn.steps:
                process.advance(turn.steps)
            if turn.killed:
                process.kill()
        for _ in range(PATIENCE):
            alive = [process for process in processes if process.state != ENDED]
            if not alive:
                break
            for process in alive:
                process.advance()
        return [BUG if process.code is None else process.code for process in processes]
    finally:
        for process in processes:
            process.kill()


def alone(scenario: Race, folder: Path, numbers: Sequence[int]) -> list[int]:
    """Returns the exit codes of conversions that run one after the other."""
    return [
        run(Race(scenario.name, (), (scenario.acts[number],)), folder, ())[0] for number in numbers
    ]


@dataclass(frozen=True)
class PossibleResults:
    """The possible results: those after each sequence of some conversions."""

    after: dict[tuple[int, ...], tuple[object, ...]]
    needless: frozenset[str]  # files of the sources that no model names

    @staticmethod
    def of(scenario: Race, folder: Path) -> PossibleResults:
        there = frozenset(needless(scenario.fresh(folder)))
        acts, after = range(len(scenario.acts)), dict[tuple[int, ...], tuple[object, ...]]()
        for count in range(len(acts) + 1):
            for numbers in itertools.permutations(acts, count):
                alone(scenario, scenario.fresh(folder), numbers)
                after[numbers] = look(folder, scenario.results)
        return PossibleResults(after, there)

    def allowed(self, codes: Sequence[int]) -> list[tuple[object, ...]]:
        """Returns the results that fit the exit codes; a killed conversion may have finished."""
        sure = {number for number, code in enumerate(codes) if code == DONE}
        never = {number for number, code in enumerate(codes) if code == TOLD}
        return [
            results
            for numbers, results in self.after.items()
            if sure <= {*numbers} and not never & {*numbers}
        ]


def fault(scenario: Race, possible: PossibleResults, folder: Path, turns: Sequence[Turn]) -> str:
    """Returns the fault after an order of turns; empty if there is none."""
    codes = run(scenario, scenario.fresh(folder), turns)
    if BUG in codes:
        return f"BUG {codes}"
    contents = look(folder, scenario.results)
    if contents not in possible.allowed(codes):
        return f"MIXED {codes}: {[content[0] if isinstance(content, tuple) else content for content in contents]}"
    killed = any(code < 0 for code in codes)
    if not killed and (leftovers := needless(folder) - possible.needless):
        return f"LEFT {sorted(leftovers)} {codes}"
    if BUG in (later := alone(scenario, folder, range(len(codes)))):
        return f"STUCK {later}"
    if broken := [
        content for content in look(folder, scenario.results) if isinstance(content, str)
    ]:
        return f"BROKEN-LATER {broken}"
    leftovers = needless(folder) - possible.needless
    return f"LEFT-LATER {sorted(leftovers)} {codes}" if leftovers else ""


def faults(
    scenario: Race, folder: Path, chance: random.Random, most: int
) -> Iterator[tuple[list[Turn], str]]:
    """Yields each order of a scenario, and its fault."""
    scenario.acts[0].run(scenario.fresh(folder))  # what it imports, the children inherit
    possible = PossibleResults.of(scenario, folder)
    for turns in orders(scenario, folder, chance, most):
        yield turns, fault(scenario, possible, folder, turns)
