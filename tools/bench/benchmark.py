# SPDX-License-Identifier: Apache-2.0
"""Defines the rows of the benchmark table: models, goals and measurements."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    """The goals of a row of the benchmark table; None stands for a missing goal."""

    cpu_of_cpp: float | None = None
    later_of_cpp: float | None = None
    within_two_cp: bool = False
    peak_mb: float | None = None


@dataclass(frozen=True)
class Benchmark:
    """One row of the benchmark table: the models, their conversion, and the goals."""

    workload: str
    title: str
    mode: str
    source: int
    target: int
    size: int
    goal: Goal = Goal()
    corpus: str = ""  # a folder of real models; those with `size` to `most` nodes are measured
    most: int = 0

    @property
    def name(self) -> str:
        """The name of the folder of the models; rows with the same source models share a folder."""
        if self.corpus:
            return f"{self.workload}-{self.target}-{self.size}-{self.most}"
        return f"{self.workload}-{self.source}-{self.size}"

    @property
    def steps(self) -> str:
        """The conversion as text."""
        return f"{self.source or 'any'} → {self.target}"


@dataclass(frozen=True)
class Measurement:
    """The measured figures of one engine in one benchmark."""

    cpu: float = 0.0
    wall: float = 0.0
    peak_mb: float = 0.0
    imports: float = 0.0
    base_mb: float = 0.0
    note: str = ""
    bound: bool = False
    later: float = 0.0  # the CPU time of a second call in the same process (only mode `memory`)

    @property
    def done(self) -> bool:
        """Whether a time was measured; it may be only a lower bound."""
        return self.cpu > 0


Row = tuple[Benchmark, dict[str, Measurement]]


def short(text: str, limit: int = 200) -> str:
    """Shortens a message so that it fits into one cell of the table."""
    line = " ".join(text.replace("|", "/").split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
