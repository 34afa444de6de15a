# SPDX-License-Identifier: Apache-2.0
"""Compares the results of two models on equal inputs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from opshift.child_task import Limits
from opshift.protos import ModelProto
from opshift.records import dataclass
from opshift.text import counted
from opshift.verify import (
    across_types,
    engine_choice,
    extra,
    generate,
    locate,
    randomness,
)
from opshift.verify.cases import Inputs, InputSet, given
from opshift.verify.common_type import retyped_ends
from opshift.verify.engine_runs import LACKS, Results
from opshift.verify.pair import Pair, answers
from opshift.verify.tolerance import distance
from opshift.verify.verification import (
    DIFFERENT,
    EQUAL,
    LIKE,
    UNKNOWN,
    Cause,
    Row,
    Side,
    Verification,
)


@dataclass(frozen=True, slots=True)
class Reference:
    """The inputs, the engine and the results of the first model, for comparison with the second."""

    side: Side
    cases: Sequence[InputSet]
    results: Results
    note: str  # the reason if there are no results

    @property
    def answered(self) -> bool:
        """Whether the first model has a result, with which others can be compared."""
        return any(not error for _, error in self.results)


def reference_of(pair: Pair, inputs: Inputs | None) -> Reference:
    """Runs the first model of a pair, and returns its results."""
    second_model = pair.a.model if pair.runtime else pair.b.model
    chosen = engine_choice.choose((pair.a.model, second_model), pair.engine)[0]
    side, cases, results = first_answers(pair, *chosen, inputs)
    note = ""
    if inputs is None and all(error for _, error in results):
        lacks = any(LACKS in error for _, error in results)
        helps = "check A with `opshift check`, give your own inputs, or raise the time limit"
        if lacks:
            helps = "convert A for the runtime"
        helps = extra.MISSING if extra.is_missing() else helps
        note = f"A has no result for generated inputs; {helps}"
    return Reference(side, cases, results, note)


def compared(
    pair: Pair, reference: Reference, reduce: str | os.PathLike[str] | None, folder: Path,
    values: Sequence[str] = (), *, locates: bool = True,
) -> Verification:  # fmt: skip
    """Runs the second model and compares; `locates` also finds the first value that differs."""
    first, cases, expected = reference.side, reference.cases, reference.results
    second, actual = Side(pair.b.name, *_second_engine(pair)), expected
    if reference.answered:
        second, actual = answers(pair, pair.b, second.engine, second.why, cases)
    names = _outputs(pair.a.model, pair.b.model)
    rows: list[Row] = []
    notes = []
    random = randomness.drawn(pair.a.model)
    if reference.note:
        notes.append(reference.note)
    for case, before, after in zip(cases, expected, actual, strict=True):
        rows += _rows(pair, case, before, after, names, random)
    notes += _without_numbers(rows, random)
    if values and reference.answered:
        rows += locate.inside(pair, (first.engine, second.engine), cases, values, folder)
    for name, kind in sorted(pair.precision.used.items()):
        notes.append(f"{name!r} is computed in {kind}, so the tolerance of {kind} was used")
    if objection := _interface(pair.a.model, pair.b.model):
        rows.append(Row("", "", DIFFERENT, objection))
    cause = None
    if pair.in_double and reference.answered:
        if differing_types := retyped_ends(pair.a.model, pair.b.model):
            notes.append(differing_types)
        both = (expected, actual)
        apart = across_types.distances(pair, first.engine, cases, both, names, folder)
        notes += apart.notes
        rows = list(map(apart.judged, rows))
    elif locates and any(row.outcome == DIFFERENT and row.inputs for row in rows):
        cause = _cause(pair, (first, second), cases, rows, reduce, folder)
    return Verification((first, second), pair.seed, tuple(rows), tuple(notes), cause)


def _second_engine(pair: Pair) -> tuple[str, str]:
    """Returns the engine of the second model, and the reason for this engine."""
    if pair.runtime:
        return str(pair.runtime), "chosen by the caller"
    return engine_choice.choose((pair.a.model, pair.b.model), pair.engine)[1]


def first_answers(
    pair: Pair, engine: str, why: str, inputs: Inputs | None
) -> tuple[Side, list[InputSet], Results]:
    """Returns inputs on which the first model has results, and these results."""
    if inputs is not None:
        cases = given(pair.a.model, inputs)
        side, results = answers(pair, pair.a, engine, why, cases)
        return side, cases, results
    attempts: list[tuple[InputSet, tuple[dict[str, Any], str]]] = []
    model = generate.with_sizes_of(pair.a.model, pair.b.model)
    side, begun = Side(pair.a.name, engine, why), time.monotonic()
    for ladder, calm in generate.ATTEMPTS:
        if ladder in (generate.SECOND, generate.LARGE) and not generate.is_dynamic(model):
            continue
        cases = list(generate.cases(model, pair.seed, ladder, pair.adapters, calm=calm))
        tried, results = answers(pair, pair.a, engine, why, cases)
        attempts += zip(cases, results, strict=True)
        side = tried if any(not error for _, error in results) else side
        late = time.monotonic() - begun > (pair.limits or Limits()).seconds
        if late or sum(_shows_numbers(result) for _, result in attempts) > 1:
            break
    answered = [attempt for attempt in attempts if not attempt[1][1]]
    runs = sorted(answered, key=lambda attempt: not _shows_numbers(attempt[1]))[:2] or attempts[:1]
    return side, [case for case, _ in runs], [result for _, result in runs]


def _shows_numbers(result: tuple[dict[str, Any], str]) -> bool:
    """Returns whether a model has a result with a number that can be compared."""
    values, error = result
    return not error and any(map(_has_number, values.values()))


def _has_number(value: Any) -> bool:
    """Returns whether a tensor, a sequence or a map has an element other than NaN or infinity."""
    if isinstance(value, (list, dict)):
        return any(map(_has_number, value.values() if isinstance(value, dict) else value))
    if isinstance(value, np.ndarray) and value.dtype.kind in "fcV":
        return bool(np.isfinite(value).any())
    return not isinstance(value, np.ndarray) or bool(value.size)


def _outputs(a: ModelProto, b: ModelProto) -> list[tuple[str, str]]:
    """Pairs the outputs of two models: by name, or by position if the names differ."""
    mine, other = ([info.name for info in model.graph.output] for model in (a, b))
    if set(mine) == set(other):
        return [(name, name) for name in mine]
    return list(zip(mine, other, strict=False))


def _interface(a: ModelProto, b: ModelProto) -> str:
    """Describes a different number of outputs; empty if the numbers are equal."""
    if len(a.graph.output) != len(b.graph.output):
        return f"A has {counted(len(a.graph.output), 'output')}, B has {len(b.graph.output)}"
    return ""


def _rows(
    pair: Pair, case: InputSet,
    before: tuple[dict[str, Any], str], after: tuple[dict[str, Any], str],
    names: Sequence[tuple[str, str]], random: set[str],
) -> Iterator[Row]:  # fmt: skip
    for letter, (_, error) in zip("AB", (before, after), strict=True):
        if error:
            yield Row(case.label, "", UNKNOWN, f"{letter} gave no answer: {error}")
            return
    for mine, other in names:
        expected, actual = before[0][mine], after[0][other]
        if mine in random:
            difference = randomness.unlike(expected, actual)
            yield Row(case.label, mine, DIFFERENT if difference else LIKE, difference)
        else:
            difference = pair.difference(expected, actual, mine)
            outcome = DIFFERENT if difference else EQUAL if _has_number(expected) else LIKE
            yield Row(case.label, mine, outcome, difference, distance(expected, actual))


def _without_numbers(rows: Sequence[Row], random: set[str]) -> Iterator[str]:
    """Yields a note for each output of which no number was compared, with the reason."""
    outcomes: dict[str, set[str]] = {}
    for row in rows:
        outcomes.setdefault(row.output, set()).add(row.outcome)
    for name, outcome in outcomes.items():
        if outcome == {LIKE}:
            why = "depends on random numbers" if name in random else "has no finite number"
            yield f"{name!r} {why}, so only its type and shape were compared"


def _cause(
    pair: Pair, sides: tuple[Side, Side], cases: Sequence[InputSet], rows: Sequence[Row],
    reduce: str | os.PathLike[str] | None, folder: Path,
) -> Cause | None:  # fmt: skip
    label = next(row.inputs for row in rows if row.outcome == DIFFERENT)
    case = next(case for case in cases if case.label == label)
    return locate.first(pair, (sides[0].engine, sides[1].engine), case, reduce, folder)
