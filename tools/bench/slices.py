# SPDX-License-Identifier: Apache-2.0
"""Runs programs side by side in slices of time: one works while the others are stopped.

A machine is faster in some seconds than in others; programs that take turns of a tenth of a second
all meet the same one. A program says `ready`, works once it is given a line, says `done`, and stays
until its input ends.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SLICE = 0.1  # seconds


@dataclass(frozen=True)
class TurnTimes:
    """The seconds of a program's own turns, and the CPU of it and of all that it started."""

    wall: float
    cpu: float


def side_by_side(commands: Mapping[str, Sequence[str]]) -> dict[str, TurnTimes]:
    """The seconds of each program; the first program begins."""
    programs = {name: ProcessGroup(command) for name, command in commands.items()}
    try:
        for program in programs.values():
            program.must_say("ready")
        for program in programs.values():
            program.begin()
        working = list(programs.values())
        while working:
            working = [program for program in working if not program.turn()]
        return {name: TurnTimes(p.wall, p.cpu) for name, p in programs.items()}
    finally:
        for program in programs.values():
            program.end()


class ProcessGroup:
    """A program, and all that it starts, as one group that can be stopped and continued."""

    def __init__(self, command: Sequence[str]) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.wall = self.cpu = 0.0

    def must_say(self, word: str) -> None:
        """Reads a line."""
        assert self.process.stdout is not None
        said = self.process.stdout.readline().strip()
        if said != word:
            raise SystemExit(f"{self.process.args!r} said {said!r} instead of {word!r}")

    def begin(self) -> None:
        """Sends the line for which the program waits; it reads the line in its first turn."""
        assert self.process.stdin is not None
        self.cpu = -cpu(self.process.pid)
        self._signal(signal.SIGSTOP)
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def turn(self) -> bool:
        """Lets the program work for a slice; returns whether it is done."""
        assert self.process.stdout is not None
        begun = time.perf_counter()
        self._signal(signal.SIGCONT)
        said, _, _ = select.select([self.process.stdout], [], [], SLICE)
        if not said:
            self._signal(signal.SIGSTOP)
        self.wall += time.perf_counter() - begun
        if said:
            self.must_say("done")
            self.cpu += cpu(self.process.pid)
        return bool(said)

    def end(self) -> None:
        """Ends the program."""
        assert self.process.stdin is not None
        self._signal(signal.SIGCONT)
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self.process.wait()

    def _signal(self, number: int) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, number)


def cpu(pid: int) -> float:
    """The CPU seconds of a process and its descendants, including ended ones."""
    ticks = 0
    for one in (pid, *below(pid)):
        fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def below(pid: int) -> list[int]:
    """The processes that a process started, and those that they did."""
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        for child in Path(f"/proc/{pid}/task/{task}/children").read_text().split():
            found += [int(child), *below(int(child))]
    return found
