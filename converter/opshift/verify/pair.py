# SPDX-License-Identifier: Apache-2.0
"""Holds two models, and runs each of them in its engine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import field
from typing import Any

from opshift import child_task
from opshift.author.registry import Registry
from opshift.child_task import Limits
from opshift.records import dataclass
from opshift.verify import (
    engine_choice,
    engine_runs,
)
from opshift.verify.cases import InputSet
from opshift.verify.common_type import coarser, fitted, retyped_ends
from opshift.verify.engine_runs import Results
from opshift.verify.other_runtime import OtherRuntime, RuntimeJob
from opshift.verify.precision import Precision
from opshift.verify.subject import Subject
from opshift.verify.tolerance import BY_TYPE, EXACT, StatedTolerance
from opshift.verify.verification import Side


@dataclass(frozen=True, slots=True)
class Pair:
    """Two models, and the settings with which they run and are compared."""

    a: Subject
    b: Subject
    engine: str
    seed: int
    wanted: StatedTolerance
    limits: Limits | None  # the limits of child processes; None runs the models in this process
    adapters: Registry
    runtime: OtherRuntime | None = None  # runs the second model
    # whether element types may differ; None means: if they differ in these models
    in_double: bool | None = None
    precision: Precision = field(init=False)
    precision_of_b: Precision = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "precision", Precision(self.a.model, self.adapters))
        object.__setattr__(self, "precision_of_b", Precision(self.b.model, self.adapters))
        if self.in_double is None:
            object.__setattr__(self, "in_double", self._types_differ())

    def _types_differ(self) -> bool:
        """Returns whether element types differ at the interface or in a computation."""
        outputs = [info.name for info in self.a.model.graph.output]
        computed_in = filter(all, map(self.computed_in, outputs))
        ends = retyped_ends(self.a.model, self.b.model)
        return bool(ends) or any(mine != other for mine, other in computed_in)

    def run(self, subject: Subject, engine: str, cases: Sequence[InputSet]) -> Results:
        """Returns the results of a model for each case."""
        values = [dict(case.values) for case in cases]
        if self.in_double:
            values = [fitted(inputs, subject.model) for inputs in values]
        if self.runtime and engine == str(self.runtime):
            job = RuntimeJob.of(subject.model, subject.path, values)
            (answer,) = self.runtime.run([job], self.limits or Limits())
            return [
                (outputs, error and f"{answer.outcome}: {error}")
                for outputs, error in answer.results
            ]
        if self.limits is None:
            return engine_runs.here(engine, os.fspath(subject.path), values, self.seed)
        done = child_task.run(
            engine_runs.CHILD, engine, os.fspath(subject.path), values, self.seed,
            limits=self.limits,
        )  # fmt: skip
        return done.value if not done.error else [({}, done.error)] * len(cases)

    def difference(self, expected: Any, actual: Any, name: str) -> str:
        """Describes the difference of two values; empty if they are equal within the tolerance."""
        computed_in = ""
        if self.in_double:
            expected, actual, computed_in = coarser(expected, actual)
        difference = self.wanted.at(expected, computed_in).difference(expected, actual)
        if not difference:
            return ""
        computed_in = self.precision.of(name)
        if self.in_double:
            inside = self.computed_in(name)
            computed_in = max(inside, key=lambda kind: BY_TYPE.get(kind, EXACT).rtol)
        if self.wanted.at(expected, computed_in).difference(expected, actual):
            return difference
        self.precision.used[name] = computed_in
        return ""

    def computed_in(self, name: str) -> tuple[str, str]:
        """Returns the coarsest element types in the computation of a value, for both models."""
        return self.precision.of(name), self.precision_of_b.of(name)


def answers(
    pair: Pair, subject: Subject, engine: str, why: str, cases: Sequence[InputSet]
) -> tuple[Side, Results]:
    """Returns the results of a model; if the automatic engine fails, the other engine is tried."""
    results = pair.run(subject, engine, cases)
    failed = next((error for _, error in results if error), "")
    chosen = pair.engine == "auto" and engine in engine_choice.ENGINES
    if failed and chosen and all(error for _, error in results):
        alternative = next(name for name in engine_choice.ENGINES if name != engine)
        if not engine_choice.objection(subject.model, alternative):
            again = pair.run(subject, alternative, cases)
            if not all(error for _, error in again):
                return Side(subject.name, alternative, f"{engine} gave no answer: {failed}"), again
    return Side(subject.name, engine, why), results
