# SPDX-License-Identifier: Apache-2.0
"""Counts the models of a run by outcome and by reason, with one example for each reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from opshift.json_form import Form
from opshift.records import dataclass
from opshift.report import NO, NOT_KNOWN
from opshift.text import Line, Role, Shown, counted, printable, table
from opshift.zoo.outcome import Fate, Outcome

COUNTS = ("models", "now", "after", "not_known")  # the counts that are reported for each runtime


@dataclass(frozen=True, slots=True)
class ReasonCount:
    """A reason for failures, with the number of models and one of them."""

    fate: str
    """The outcome."""
    why: str
    """The reason."""
    count: int
    """The number of models."""
    example: str
    """One of these models."""
    detail: str
    """The message about this model."""


@dataclass(frozen=True, slots=True)
class RuntimeCounts:
    """The number of models that a runtime of `--runtimes` runs."""

    target: str
    """The runtime and its release."""
    models: int
    """The number of models with an answer."""
    now: int
    """The number of models that the runtime runs without a conversion."""
    after: int
    """The number of models that the runtime runs after a conversion."""
    not_known: int
    """The number of models for which it is not known whether the runtime runs them after a
    conversion."""


@dataclass(frozen=True, slots=True)
class Counts(Form):
    """The number of models of a batch by outcome, and the reasons for failures.

    Printed by `opshift batch`.
    """

    KIND = "batch"
    MODEL = False

    total: int
    """The number of models of this run or shard."""
    left: int
    """The number of models that were not converted, because the run was stopped."""
    fates: Mapping[str, int]
    """The number of models by outcome: `ok`, `skipped`, `refused`, `invalid`, `unverified`,
    `crashed`, `timeout`, `oom` or `lost`."""
    reasons: tuple[ReasonCount, ...]
    """The reasons for failures, the most frequent one first."""
    bytes: int
    """The size of the source models with their external data."""
    notes: tuple[str, ...]
    """Remarks about the run."""
    faults: tuple[str, ...]
    """Errors of files that are not results, such as the journal."""
    runtimes: tuple[RuntimeCounts, ...]
    """The counts for each runtime of `--runtimes`."""
    accepted: Mapping[str, Mapping[str, int]]
    """The number of new results, by the runtime of `--for` and by its answer: `yes`, `no` or
    `not known`."""


@dataclass(slots=True, repr=False)
class Summary(Shown):
    """The counts of a run; `left` models were not converted because the run was stopped."""

    total: int = 0
    fates: Counter[Fate] = field(default_factory=Counter)
    reasons: Counter[tuple[Fate, str]] = field(default_factory=Counter)
    examples: dict[tuple[Fate, str], Outcome] = field(default_factory=dict)
    size: int = 0
    worked: int = 0  # bytes of the models that were not up to date
    notes: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()  # errors of files that are not results, such as the journal
    # by runtime: the numbers of models, by the names in COUNTS
    runs: dict[str, Counter[str]] = field(default_factory=dict)

    # by runtime of the target: the numbers of results by the answer whether it accepts them
    accepted: dict[str, Counter[str]] = field(default_factory=dict)

    def add(self, outcome: Outcome) -> None:
        self.fates[outcome.fate] += 1
        self.size += outcome.size
        self.worked += outcome.size if outcome.fate is not Fate.SKIPPED else 0
        if outcome.accepted and outcome.origin:
            self.accepted.setdefault(outcome.origin.runtime, Counter())[outcome.accepted] += 1
        for target, now, after in outcome.runs:
            counts = self.runs.setdefault(target, Counter())
            counts.update({"models": 1, "now": int(now == "yes"), "after": int(after == "yes")})
            counts.update({"gained": int(now == "no" and after == "yes")})
            counts.update({"never": int(now == "no" and after == "no")})
            counts.update({"not_known": int(after == "not known")})
        if outcome.fate.failed:
            reason = (outcome.fate, outcome.why)
            self.reasons[reason] += 1
            first = self.examples.setdefault(reason, outcome)
            if outcome.name < first.name:  # the models end in any order
                self.examples[reason] = outcome

    @property
    def frequent(self) -> list[tuple[Fate, str, int]]:
        """The reasons with their numbers of models, the most frequent first."""
        reasons = ((fate, why, count) for (fate, why), count in self.reasons.items())
        return sorted(reasons, key=lambda one: (-one[2], one[0].value, one[1]))

    @property
    def done(self) -> int:
        return sum(self.fates.values())

    @property
    def left(self) -> int:
        return self.total - self.done

    @property
    def failures(self) -> int:
        return sum(count for fate, count in self.fates.items() if fate.failed)

    @property
    def unaccepted(self) -> list[str]:
        """The sentences on results that a runtime rejects, or for which this is not known."""
        return [
            sentence.format(target, counted(counts[answer], "result"))
            for target, counts in self.accepted.items()
            for answer, sentence in {
                NO: "{} does not accept {}.",
                NOT_KNOWN: "It is not known whether {} accepts {}; `opshift accepts` says why.",
            }.items()
            if counts[answer]
        ]

    def as_dict(self) -> dict[str, Any]:
        """The JSON form that `opshift schema` describes."""
        reasons = []
        for fate, why, count in self.frequent:
            example = self.examples[fate, why]
            name = printable(example.name)
            reasons.append(ReasonCount(fate.value, why, count, name, example.detail))
        runtimes = (
            RuntimeCounts(target, *(counts[name] for name in COUNTS))
            for target, counts in self.runs.items()
        )
        fates = {fate.value: self.fates[fate] for fate in Fate}
        return Counts(
            self.total, self.left, fates, tuple(reasons), self.size, self.notes, self.faults,
            tuple(runtimes), {name: dict(counts) for name, counts in self.accepted.items()},
        ).as_dict()  # fmt: skip

    def lines(self) -> Iterator[Line]:
        """Yields the number of models by outcome, then each reason with an example."""
        present = (fate for fate in Fate if self.fates[fate])
        counts = ", ".join(f"{self.fates[fate]:,} {fate.value}" for fate in present)
        role = Role.BAD if self.failures else Role.GOOD
        yield Line(f"{counted(self.total, 'model')}: {counts or 'nothing to do'}.", role)
        if self.left:
            yield Line(
                f"{self.left} of {self.total} are not converted: run the command again.", Role.BAD
            )
        for text in self.unaccepted:
            yield Line(text, Role.CAUTION)
        for fate, why, count in self.frequent:
            example = self.examples[fate, why]
            yield Line(f"{fate.value}: {why} x{count}")
            yield Line(f"  example: {example.name}")
            yield Line(f"  {example.detail}")
        if self.runs:
            rows = (
                (target, *(str(counts[name]) for name in COUNTS))
                for target, counts in self.runs.items()
            )
            header = ("runtime", "models", "runs now", "after conversion", "not known")
            yield from table(header, rows)
        for note in self.notes:
            yield Line(f"note: {note}")
        for fault in self.faults:
            yield Line(f"error: {fault}", Role.BAD)
