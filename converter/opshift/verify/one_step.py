# SPDX-License-Identifier: Apache-2.0
"""Runs initialization and one training step of both models, and compares the trained models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from opshift import versions
from opshift.model import walk
from opshift.opsets import schemas
from opshift.protos import ModelProto
from opshift.protos.whole import onnx
from opshift.verify import engine_choice, randomness, training
from opshift.verify.pair import Pair, answers
from opshift.verify.pair_results import compared, first_answers, reference_of
from opshift.verify.subject import Subject, save
from opshift.verify.verification import DIFFERENT, Row, Verification


class OneStep:
    """Compares the initialization, one training step, and the trained models of a pair.

    After each training graph, a model continues with the values that this graph computed for it.
    Random values are copied from the first model to the second model.
    """

    def __init__(self, pair: Pair, folder: Path, verification: Verification) -> None:
        self.pair, self.folder, self.found = pair, folder, verification
        self.rows, self.notes, self.cause = (
            list(verification.rows),
            list(verification.notes),
            verification.cause,
        )
        self.models = tuple(onnx.load(subject.path) for subject in (pair.a, pair.b))
        self.complete, self.set = True, False

    def run(self) -> Verification:
        """Compares initialization and algorithm of each training info, then the trained models."""
        for number in range(len(self.models[0].training_info)):
            for name in training.BINDINGS:
                self._part(number, name)
        if self.set and self.complete:
            trained = tuple(map(training.without, self.models))
            self._compare("after one training step", trained)
        return replace(self.found, rows=tuple(self.rows), notes=tuple(self.notes), cause=self.cause)

    def _part(self, number: int, name: str) -> None:
        """Compares one training graph of both models, and sets the initializers that it binds."""
        label = training.label(number, name)
        first, second = (training.part(model, number, name) for model in self.models)
        bound, other = (training.bindings(model, number, name) for model in self.models)
        if lost := sorted(bound.keys() ^ other.keys()):
            difference = (
                f"training sets a value in only one of the models: {', '.join(map(repr, lost))}"
            )
            self.rows.append(Row(f"{label}: bindings", "", DIFFERENT, difference))
        if first is None:
            return
        if reason := _not_compared((first, second)):
            self.notes.append(f"{label} is not compared: {reason}")
            self.complete = False
            return
        assert second is not None
        subjects = self._compare(label, (first, second))
        if bound and not lost:
            self._set(subjects, (bound, other))

    def _compare(self, label: str, models: tuple[ModelProto, ...]) -> list[Subject]:
        subjects = []
        for letter, model in zip("ab", models, strict=True):
            path = self.folder / f"{label}-{letter}.onnx"
            save(model, path)
            subjects.append(Subject(f"{label} of {letter.upper()}", path, model))
        pair = self._pair(subjects)
        part = compared(pair, reference_of(pair, None), None, self.folder)
        self.rows += [replace(row, inputs=f"{label}: {row.inputs}") for row in part.rows]
        self.notes += [f"{label}: {note}" for note in part.notes]
        self.cause = self.cause or part.cause
        return subjects

    def _pair(self, subjects: Sequence[Subject]) -> Pair:
        return replace(self.pair, a=subjects[0], b=subjects[1])

    def _set(self, subjects: Sequence[Subject], bound: tuple[dict[str, str], ...]) -> None:
        """Sets initializers of both models to the results of their graphs for equal inputs."""
        pair = self._pair(subjects)
        engines_of = engine_choice.choose((subjects[0].model, subjects[1].model), pair.engine)
        _, cases, expected = first_answers(pair, *engines_of[0], None)
        _, actual = answers(pair, pair.b, *engines_of[1], cases)
        (mine, error), (other, another) = expected[0], actual[0]
        if error or another:
            self.complete = False
            return
        random = randomness.drawn(subjects[0].model)
        values = [
            {key: result[value] for key, value in outputs_by_key.items()}
            for result, outputs_by_key in ((mine, bound[0]), (other, bound[1]))
        ]
        for key, value in bound[0].items():
            if value in random:
                values[1][key] = values[0][key]
        self.models = tuple(map(training.with_values, self.models, values))
        self.set = True


def _not_compared(models: tuple[ModelProto | None, ...]) -> str:
    """Returns the reason why no engine can run a training graph; empty if an engine can."""
    for model, letter in zip(models, "AB", strict=True):
        if model is None:
            return f"{letter} has no such graph"
        engines = [engine_choice.OURS] if _trains(model) else list(engine_choice.ENGINES)
        against = [engine_choice.objection(model, name) for name in engines]
        if all(against):
            return f"no engine can run this graph of {letter}: {'; '.join(against)}"
    return ""


def _trains(model: ModelProto) -> bool:
    """Returns whether a graph has training operators, which onnxruntime does not implement."""
    return versions.TRAINING in {schemas.normal(node.domain) for node in walk.nodes(model)}
