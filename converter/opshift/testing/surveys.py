# SPDX-License-Identifier: Apache-2.0
"""Runs every example of a package on many sets of inputs, and lists unexplained differences."""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from opshift import toml
from opshift.author import registry
from opshift.author.example import Example
from opshift.author.verdicts import Adapter
from opshift.convert.api import convert_version
from opshift.convert.legal import checker
from opshift.errors import InvalidModel, Refused
from opshift.protos import ModelProto
from opshift.records import dataclass
from opshift.testing.compared import compared
from opshift.testing.empties import empties
from opshift.testing.example_models import differences, example_model, example_target, examples
from opshift.testing.input_sets import SETS, divisible
from opshift.testing.judge_process import shared
from opshift.testing.models import Evaluate
from opshift.testing.variants import UNKNOWN_SIZES, feeds, legal_variants
from opshift.verify import oracle


@dataclass(frozen=True, slots=True)
class ListedExample:
    """One example with the name under which surveys list it."""

    name: str
    adapter: Adapter
    example: Example


@dataclass(frozen=True, slots=True)
class InputSurvey:
    """The result of a survey: the number of sets that ran for each example, and differences."""

    ran: Mapping[str, int]
    found: Sequence[str]

    @property
    def idle(self) -> list[str]:
        """The examples whose original no engine could compute."""
        return [name for name, count in self.ran.items() if not count]

    def unexplained(self, known: Iterable[str]) -> list[str]:
        """Returns the differences without a known reason."""
        parts = [pattern(part) for part in known]
        return [
            difference
            for difference in self.found
            if not any(part.search(difference) for part in parts)
        ]


def subjects(package: str) -> list[ListedExample]:
    """Returns the examples whose results can be compared; a name that repeats gets a number."""
    listed, counts = [], Counter[str]()
    for adapter, example in examples(package):
        if example.refuses is None and example.invalid is None and not example.approximate:
            ops = "/".join(adapter.ops[:3])
            name = f"{adapter.source.removeprefix(f'{package}.')} {ops} {example.title}"
            counts[name] += 1
            again = f" ({counts[name]})" if counts[name] > 1 else ""
            listed.append(ListedExample(f"{name}{again}", adapter, example))
    return listed


def survey(
    chosen: str | Iterable[ListedExample], sets: Sequence[str] = SETS, *,
    evaluate: Evaluate | None = None,
) -> InputSurvey:  # fmt: skip
    """Runs the examples of a package, or selected examples, on these sets of inputs."""
    ran, problems = {}, []
    for subject in subjects(chosen) if isinstance(chosen, str) else chosen:
        before = example_model(subject.adapter, subject.example)
        try:
            after = convert_version(before, example_target(subject.adapter, subject.example))
        except (InvalidModel, Refused) as error:
            ran[subject.name] = 1
            problems.append(f"{subject.name} [given]: the example does not convert: {error}")
            continue
        answers = differences(before, after, subject.example, sets)
        if not answers and evaluate is not None:
            answers = differences(before, after, subject.example, sets, evaluate)
        ran[subject.name] = len(answers)
        problems += [
            f"{subject.name} [{name}]: {difference}" for name, difference in answers if difference
        ]
    return InputSurvey(ran, problems)


def varied(
    chosen: str | Iterable[ListedExample], *, evaluate: Evaluate | None = None, compare: bool = True
) -> InputSurvey:
    """Converts the variants of examples: each must be refused, or compute the same as before.

    With `compare=False`, models do not run: a variant must be refused or convert without an error.
    """
    ran, problems, adapters = Counter[str](), list[str](), registry.default()

    def is_legal(variant: ModelProto) -> bool:
        return checker.whole(variant, adapters, full=True) is None

    for subject in subjects(chosen) if isinstance(chosen, str) else chosen:
        ran[subject.name] = 0
        example = subject.example
        model = example_model(subject.adapter, example)
        values = oracle.make_inputs(model, overrides=dict(example.inputs)) if compare else {}
        ops = subject.adapter.ops
        for name, variant in legal_variants(model, subject.adapter.domain, ops, is_legal):
            ran[subject.name] += 1
            after = _converted(subject, variant)
            if isinstance(after, ModelProto) and compare:
                after = _variant(subject, name, variant, after, feeds(values), evaluate)
            if after and isinstance(after, str):
                problems.append(f"{subject.name} [{name}]: {after}")
    return InputSurvey(ran, problems)


def _converted(subject: ListedExample, before: ModelProto) -> ModelProto | str:
    """Returns the converted variant, or the text of an error; empty if the model is refused."""
    try:
        return convert_version(before, example_target(subject.adapter, subject.example))
    except (InvalidModel, Refused):
        return ""
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"


def _variant(
    subject: ListedExample, name: str, before: ModelProto, after: ModelProto,
    values: Mapping[str, Any], evaluate: Evaluate | None,
) -> str:  # fmt: skip
    """Describes the difference between a variant and its result; empty if there is none."""
    names = {info.name for info in before.graph.input}
    inputs_of_variant = {key: value for key, value in values.items() if key in names}
    inputs_of_variant = divisible(before, oracle.make_inputs(before, overrides=inputs_of_variant))
    results = _differences(
        before, after, subject.example, inputs_of_variant, ("given", "negative"), evaluate
    )
    if name == UNKNOWN_SIZES:
        fixed = subject.example.inputs
        results += _differences(before, after, subject.example, fixed, ("empty",), evaluate)
    return "; ".join(f"{inputs}: {what}" for inputs, what in results if what)


def _differences(
    before: ModelProto, after: ModelProto, example: Example, inputs: Mapping[str, Any],
    sets: Sequence[str], evaluate: Evaluate | None,
) -> list[tuple[str, str]]:  # fmt: skip
    """Lists differences on sets of these inputs; calls `evaluate` if opshift's engines fail."""
    tolerance = example.rtol, example.atol
    answers = shared().compare(before, after, inputs, sets, tolerance)
    if not answers and evaluate is not None:
        steps = compared(
            before, after, inputs, sets, evaluate, rtol=example.rtol, atol=example.atol
        )
        answers = [(name, difference) for name, difference in steps if difference]
    return answers


def emptied(chosen: str | Iterable[ListedExample]) -> InputSurvey:
    """Sets each dimension of the examples to 0; conversions must refuse or keep the results."""
    ran, problems, adapters = Counter[str](), list[str](), registry.default()
    for subject in subjects(chosen) if isinstance(chosen, str) else chosen:
        ran[subject.name] = 0
        model = example_model(subject.adapter, subject.example)
        values = oracle.make_inputs(model, overrides=dict(subject.example.inputs))
        for name, variant, inputs in empties(model, values):
            if checker.whole(variant, adapters, full=True) is not None:
                continue  # the operator does not allow an empty tensor here
            ran[subject.name] += 1
            after = _converted(subject, variant)
            if isinstance(after, ModelProto):
                answers = _differences(variant, after, subject.example, inputs, ("given",), None)
                after = "; ".join(difference for _, difference in answers if difference)
            if after:
                problems.append(f"{subject.name} [{name}]: {after}")
    return InputSurvey(ran, problems)


def sampled(every: Iterable[ListedExample], seed: int = 0) -> Iterator[ListedExample]:
    """Yields one example of each adapter, chosen at random by the seed."""
    by_adapter: dict[int, list[ListedExample]] = {}
    for subject in every:
        by_adapter.setdefault(id(subject.adapter), []).append(subject)
    draw = random.Random(seed)
    for choice in by_adapter.values():
        yield draw.choice(choice)


def pattern(part: str) -> re.Pattern[str]:
    """Returns a pattern for a part of an accepted finding, in which `*` matches any text."""
    return re.compile(re.escape(part).replace(r"\*", ".*"))


def reasons(path: str | os.PathLike[str]) -> dict[str, str]:
    """Reads the findings to accept from a TOML file: a part of the line, and the reason."""
    groups = toml.loads(Path(path).read_text())
    return {part: why for group in groups.values() for part, why in group.items()}
