# SPDX-License-Identifier: Apache-2.0
"""Runs two models on equal inputs and compares their results."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np

from opshift import child_task
from opshift.author import registry
from opshift.author.registry import Registry
from opshift.child_task import Limits
from opshift.errors import BadTarget, MissingExtra
from opshift.model.bytes import documents
from opshift.protos import ModelProto
from opshift.records import dataclass
from opshift.text import counted
from opshift.verify import (
    across_types,
    engine_choice,
    extra,
    generate,
    isolated_task,
    locate,
    other_runtime,
    randomness,
)
from opshift.verify.cases import Inputs, InputSet, given
from opshift.verify.isolated_task import LACKS, Results
from opshift.verify.other_runtime import Job, OtherRuntime
from opshift.verify.precision import Precision
from opshift.verify.subject import Model, Subject, opened
from opshift.verify.tolerance import BY_TYPE, EXACT, StatedTolerance, distance
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


def verify(
    a: Model,
    b: Model,
    inputs: Inputs | None = None,
    *,
    engine: engine_choice.EngineName = "auto",
    seed: int = 0,
    rtol: float | None = None,
    atol: float | None = None,
    ulp: int | None = None,
    limits: Limits | None = None,
    reduce: str | os.PathLike[str] | None = None,
    isolated: bool = True,
    runtime: str = "",
    values: Sequence[str] = (),
    in_double: bool = False,
) -> Verification:
    """Run two models on equal inputs and compare the results.

    Parameters
    ----------
    a, b : ModelProto or path
        The models.
    inputs : mapping, list of mappings, or path, optional
        The inputs by name: arrays, an .npz file, or a folder of test data. Without them, inputs
        are generated from the signature.
    engine : {"auto", "onnxruntime", "opshift"}
        What runs the models. "auto" prefers onnxruntime; "opshift" is the interpreter of this
        package.
    seed : int, default 0
        The seed of generated inputs.
    rtol, atol : float, optional
        The allowed relative and absolute difference of floats.
    ulp : int, optional
        The allowed difference of floats in units in the last place.
    limits : Limits, optional
        The seconds and megabytes that each run may take.
    reduce : path, optional
        A folder for the smallest part of the models that differs.
    isolated : bool, default True
        Run the models in child processes. Without children there are no limits, and a model that
        crashes its runtime ends the program.
    runtime : str, optional
        A Python interpreter; `b` runs in the runtime that it imports: onnxruntime, or another one
        that opshift can call.
    values : list of str, optional
        Values inside of both models that are compared besides the outputs. Those of subgraphs
        and functions are compared by models of the nodes that compute them.
    in_double : bool, default False
        Compare models of different element types, in the tolerance of the coarser type, and state
        the distance of both from `a` computed in double.

    Returns
    -------
    Verification
        `.equal`, each comparison, and the cause of the first difference.

    Raises
    ------
    BadTarget
        An option has no such value, or there is no such Python interpreter.
    InvalidModel
        A file is not an ONNX model, or the inputs do not fit the models.
    MissingExtra
        A package that is asked for is not installed.
    TypeError
        A model is neither a ModelProto nor a path.
    OSError
        A file cannot be read.

    Examples
    --------
    >>> from opshift.verify import verify
    >>> verify("model.onnx", "model.onnx", engine="opshift").equal
    True
    """
    _check_options(engine, rtol, atol, ulp)
    if engine == engine_choice.RUNTIME and extra.is_missing():
        raise MissingExtra(f"{extra.MISSING}, or choose the engine opshift")
    other = other_runtime.find(runtime, limits=limits) if runtime else None
    with tempfile.TemporaryDirectory(prefix="opshift-") as name, documents.beside(a, b):
        folder, adapters = Path(name), registry.default()
        pair = Pair(
            opened(a, folder, "a", adapters), opened(b, folder, "b", adapters), engine, seed,
            StatedTolerance(rtol, atol, ulp), (limits or Limits()) if isolated else None, adapters,
            other, in_double,
        )  # fmt: skip
        found = compared(pair, reference_of(pair, inputs), reduce, folder, values)
        if values:
            from opshift.verify import inner_values

            found = inner_values.with_values(found, pair, values, folder)
        if not pair.a.model.training_info:
            return found
        from opshift.verify.one_step import OneStep

        return OneStep(pair, folder, found).run()


def _check_options(engine: str, rtol: float | None, atol: float | None, ulp: int | None) -> None:
    """Refuses values with which nothing can be run or compared."""
    if engine not in ("auto", *engine_choice.ENGINES):
        raise BadTarget(f"the engine is auto, onnxruntime or opshift, not {engine!r}")
    for name, value in (("rtol", rtol), ("atol", atol), ("ulp", ulp)):
        if value is not None and value < 0:
            raise BadTarget(f"{name} is {value}; give 0 or a larger number")


@dataclass(frozen=True, slots=True)
class Pair:
    """Two models, and how to run and compare them."""

    a: Subject
    b: Subject
    engine: str
    seed: int
    wanted: StatedTolerance
    limits: Limits | None  # of the child processes; without any, the models run here
    adapters: Registry
    runtime: OtherRuntime | None = None  # it runs the second model
    in_double: bool = False  # whether element types may differ
    precision: Precision = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "precision", Precision(self.a.model, self.adapters))

    def run(self, subject: Subject, engine: str, cases: Sequence[InputSet]) -> Results:
        """The results of a model for each case."""
        values = [dict(case.values) for case in cases]
        if self.in_double:
            values = [across_types.fitted(one, subject.model) for one in values]
        if self.runtime and engine == str(self.runtime):
            job = Job.of(subject.model, subject.path, values)
            (answer,) = self.runtime.run([job], self.limits or Limits())
            return [
                (found, error and f"{answer.outcome}: {error}") for found, error in answer.results
            ]
        if self.limits is None:
            return isolated_task.here(engine, os.fspath(subject.path), values, self.seed)
        done = child_task.run(
            isolated_task.__name__, engine, os.fspath(subject.path), values, self.seed,
            limits=self.limits,
        )  # fmt: skip
        return done.value if not done.error else [({}, done.error)] * len(cases)

    def difference(self, expected: Any, actual: Any, name: str) -> str:
        """A sentence about the difference of two values; empty if they are equal."""
        computed_in = ""
        if self.in_double:
            expected, actual, computed_in = across_types.coarser(expected, actual)
        found = self.wanted.at(expected, computed_in).difference(expected, actual)
        if not found:
            return ""
        computed_in = self.precision.of(name)
        if self.in_double:
            inside = (computed_in, Precision(self.b.model, self.adapters).of(name))
            computed_in = max(inside, key=lambda kind: BY_TYPE.get(kind, EXACT).rtol)
        if self.wanted.at(expected, computed_in).difference(expected, actual):
            return found
        self.precision.used[name] = computed_in
        return ""


@dataclass(frozen=True, slots=True)
class Reference:
    """The results of the first model, with which others are compared."""

    side: Side
    cases: Sequence[InputSet]
    results: Results
    note: str  # why there are none

    @property
    def answered(self) -> bool:
        """Whether there is a result to compare with."""
        return any(not error for _, error in self.results)


def reference_of(pair: Pair, inputs: Inputs | None) -> Reference:
    """Runs the first model of a pair."""
    other = pair.a.model if pair.runtime else pair.b.model
    chosen = engine_choice.choose((pair.a.model, other), pair.engine)[0]
    side, cases, results = first_answers(pair, *chosen, inputs)
    note = ""
    if inputs is None and all(error for _, error in results):
        lacks = any(LACKS in error for _, error in results)
        helps = "convert it for the runtime" if lacks else "give your own, or raise the limits"
        helps = extra.MISSING if extra.is_missing() else helps
        note = f"A gives no answer for generated inputs; {helps}"
    return Reference(side, cases, results, note)


def compared(
    pair: Pair, reference: Reference, reduce: str | os.PathLike[str] | None, folder: Path,
    values: Sequence[str] = (), *, locates: bool = True,
) -> Verification:  # fmt: skip
    """Runs the second model; returns the comparison and, with `locates`, the first difference."""
    first, cases, expected = reference.side, reference.cases, reference.results
    second, actual = Side(pair.b.name, *_second_engine(pair)), expected
    if reference.answered:
        second, actual = answers(pair, pair.b, second.engine, second.why, cases)
    names = _outputs(pair.a.model, pair.b.model)
    rows: list[Row] = []
    notes = []
    random = randomness.drawn(pair.a.model)
    if drawn := sorted(random & {name for name, _ in names}):
        shown = ", ".join(map(repr, drawn))
        notes.append(f"{shown} depend on random numbers, so only type and shape were compared")
    if reference.note:
        notes.append(reference.note)
    for case, before, after in zip(cases, expected, actual, strict=True):
        rows += _rows(pair, case, before, after, names, random)
    if values and reference.answered:
        rows += locate.inside(pair, (first.engine, second.engine), cases, values, folder)
    for name, kind in sorted(pair.precision.used.items()):
        notes.append(f"{name!r} is computed in {kind}, so the tolerance of {kind} was used")
    if objection := _interface(pair.a.model, pair.b.model):
        rows.append(Row("", "", DIFFERENT, objection))
    cause = None
    if pair.in_double and reference.answered:
        both = (expected, actual)
        apart = across_types.distances(pair, first.engine, cases, both, names, folder)
        notes += apart.notes
        rows = list(map(apart.judged, rows))
    elif locates and any(row.outcome == DIFFERENT and row.inputs for row in rows):
        cause = _cause(pair, (first, second), cases, rows, reduce, folder)
    return Verification((first, second), pair.seed, tuple(rows), tuple(notes), cause)


def _second_engine(pair: Pair) -> tuple[str, str]:
    """The engine of the second model, and the reason for it."""
    if pair.runtime:
        return str(pair.runtime), "asked for"
    return engine_choice.choose((pair.a.model, pair.b.model), pair.engine)[1]


def first_answers(
    pair: Pair, engine: str, why: str, inputs: Inputs | None
) -> tuple[Side, list[InputSet], Results]:
    """The cases that the first model has an answer for, and its answers."""
    if inputs is not None:
        cases = given(pair.a.model, inputs)
        side, results = answers(pair, pair.a, engine, why, cases)
        return side, cases, results
    found: list[tuple[InputSet, tuple[dict[str, Any], str]]] = []
    asked = generate.with_sizes_of(pair.a.model, pair.b.model)
    side, begun = Side(pair.a.name, engine, why), time.monotonic()
    for ladder, calm in generate.ATTEMPTS:
        if ladder in (generate.SECOND, generate.LARGE) and not generate.is_dynamic(asked):
            continue
        cases = list(generate.cases(asked, pair.seed, ladder, pair.adapters, calm=calm))
        tried, results = answers(pair, pair.a, engine, why, cases)
        found += zip(cases, results, strict=True)
        side = tried if any(not error for _, error in results) else side
        late = time.monotonic() - begun > (pair.limits or Limits()).seconds
        if late or sum(_says(result) for _, result in found) > 1:
            break
    answered = [one for one in found if not one[1][1]]
    runs = sorted(answered, key=lambda one: not _says(one[1]))[:2] or found[:1]
    return side, [case for case, _ in runs], [result for _, result in runs]


def _says(result: tuple[dict[str, Any], str]) -> bool:
    """Whether a model gave a result that is not empty."""
    values, error = result
    return not error and any(not isinstance(v, np.ndarray) or v.size for v in values.values())


def answers(
    pair: Pair, subject: Subject, engine: str, why: str, cases: Sequence[InputSet]
) -> tuple[Side, Results]:
    """The results of a model; with engine auto, those of the other engine if the first has none."""
    results = pair.run(subject, engine, cases)
    failed = next((error for _, error in results if error), "")
    chosen = pair.engine == "auto" and engine in engine_choice.ENGINES
    if failed and chosen and all(error for _, error in results):
        other = next(name for name in engine_choice.ENGINES if name != engine)
        if not engine_choice.objection(subject.model, other):
            again = pair.run(subject, other, cases)
            if not all(error for _, error in again):
                return Side(subject.name, other, f"{engine} gave no answer: {failed}"), again
    return Side(subject.name, engine, why), results


def _outputs(a: ModelProto, b: ModelProto) -> list[tuple[str, str]]:
    """The pairs of outputs: by name, or by position if the names differ."""
    mine, other = ([info.name for info in model.graph.output] for model in (a, b))
    if set(mine) == set(other):
        return [(name, name) for name in mine]
    return list(zip(mine, other, strict=False))


def _interface(a: ModelProto, b: ModelProto) -> str:
    """A sentence about the difference of inputs and outputs; empty if there is none."""
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
            found = randomness.unlike(expected, actual)
            yield Row(case.label, mine, DIFFERENT if found else LIKE, found)
        else:
            found = pair.difference(expected, actual, mine)
            outcome = DIFFERENT if found else EQUAL
            yield Row(case.label, mine, outcome, found, distance(expected, actual))


def _cause(
    pair: Pair, sides: tuple[Side, Side], cases: Sequence[InputSet], rows: Sequence[Row],
    reduce: str | os.PathLike[str] | None, folder: Path,
) -> Cause | None:  # fmt: skip
    label = next(row.inputs for row in rows if row.outcome == DIFFERENT)
    case = next(case for case in cases if case.label == label)
    return locate.first(pair, (sides[0].engine, sides[1].engine), case, reduce, folder)
