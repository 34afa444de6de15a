# SPDX-License-Identifier: Apache-2.0
"""The rows of the table: their models, their goals and their measurements."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    """The goals of a row; None stands for no goal."""

    cpu_of_cpp: float | None = None
    later_of_cpp: float | None = None
    within_two_cp: bool = False
    peak_mb: float | None = None


@dataclass(frozen=True)
class Benchmark:
    """One row: its models, their conversion, and the goals."""

    workload: str
    title: str
    mode: str
    source: int
    target: int
    size: int
    goal: Goal = Goal()
    corpus: str = ""  # the folder of real models, which have `size` to `most` nodes
    most: int = 0

    @property
    def name(self) -> str:
        """The name of the folder of its models, shared by the rows that start from the same."""
        if self.corpus:
            return f"{self.workload}-{self.target}-{self.size}-{self.most}"
        return f"{self.workload}-{self.source}-{self.size}"

    @property
    def steps(self) -> str:
        """The conversion in words."""
        return f"{self.source or 'any'} → {self.target}"


@dataclass(frozen=True)
class Measurement:
    """The measured figures of one engine in one case."""

    cpu: float = 0.0
    wall: float = 0.0
    peak_mb: float = 0.0
    imports: float = 0.0
    base_mb: float = 0.0
    note: str = ""
    bound: bool = False
    later: float = 0.0  # the CPU time of a second call in the same process, in memory alone

    @property
    def done(self) -> bool:
        """Whether there is a time, which may be a lower bound."""
        return self.cpu > 0


Row = tuple[Benchmark, dict[str, Measurement]]


def short(text: str, limit: int = 200) -> str:
    """The beginning of a message, as one cell."""
    line = " ".join(text.replace("|", "/").split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
