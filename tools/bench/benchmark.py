# SPDX-License-Identifier: Apache-2.0
"""What is measured: a row of the table, what it has to reach, what was seen."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    """What a row has to reach; None is not asked for."""

    cpu_of_cpp: float | None = None
    within_two_cp: bool = False
    peak_mb: float | None = None


@dataclass(frozen=True)
class Benchmark:
    """One row: how its models are made, what is done to them, what is to be reached."""

    workload: str
    title: str
    mode: str
    source: int
    target: int
    size: int
    goal: Goal = Goal()

    @property
    def name(self) -> str:
        """The name of the folder of its models, shared by the rows that start from the same."""
        return f"{self.workload}-{self.source}-{self.size}"


@dataclass(frozen=True)
class Measurement:
    """One engine on one case."""

    cpu: float = 0.0
    wall: float = 0.0
    peak_mb: float = 0.0
    imports: float = 0.0
    base_mb: float = 0.0
    note: str = ""
    bound: bool = False

    @property
    def done(self) -> bool:
        """Whether there is a time, if only a lower bound."""
        return self.cpu > 0


Row = tuple[Benchmark, dict[str, Measurement]]


def short(text: str, limit: int = 200) -> str:
    """The beginning of a message, as one cell."""
    line = " ".join(text.replace("|", "/").split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
