# SPDX-License-Identifier: Apache-2.0
"""Runs the models of a probe in a runtime, and builds a table of the outcomes."""

from __future__ import annotations

import datetime
import platform
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np

from opshift.author import registry
from opshift.author.registry import Registry
from opshift.child_task import Limits
from opshift.errors import BadTarget
from opshift.opsets import probed, schemas, target_names, targets
from opshift.opsets.probed import DIES, FAILED, PARTLY, REFUSED, RUNS, WRONG
from opshift.probe import stamps
from opshift.probe.probe_models import (
    LARGE,
    Key,
    ProbeCase,
    ProbeModel,
    ProbeResult,
    Types,
    case,
    models,
)
from opshift.probe.result_file import ResultFile
from opshift.protos.whole import onnx
from opshift.records import dataclass
from opshift.release import VERSION
from opshift.text import Line, Role, Shown, counted
from opshift.verify import other_runtime
from opshift.verify.other_runtime import Answer, OtherRuntime
from opshift.verify.tolerance import StatedTolerance, distance, element_type

FIRST_BATCH, MOST_IN_BATCH = 50, 1000  # the number of models in one process
BATCH_SECONDS = 20  # an interrupted probe loses at most this much work
LIMITS = Limits(seconds=30, megabytes=8192)
OUTCOMES = {
    other_runtime.NOT_LOADED: REFUSED,
    other_runtime.NOT_RUN: REFUSED,
    other_runtime.ENDED: DIES,
    other_runtime.TOO_SLOW: DIES,
}
# the allowed difference as a share of the largest number
SHARES = {"float32": 1e-3, "float64": 1e-3, "float16": 2e-2}
MOST = 30  # the number of failures that are listed without -v


@dataclass(frozen=True, slots=True)
class ProbeCounts:
    """The number of models with each outcome."""

    runs: int
    """The number of models with the expected results."""
    wrong: int
    """The number of models with other results."""
    refused: int
    """The number of models that the runtime does not load or does not run."""
    dies: int
    """The number of models that end the process, or take too long."""


@dataclass(frozen=True, slots=True, repr=False)
class Probing(Shown):
    """The outcomes of the models of a probe in a runtime.

    Printed by `opshift probe`.

    Attributes
    ----------
    target : str
        The runtime and its release, in the form of the option `--for`.
    results : tuple of ProbeResult
        Each model with its outcome: `"runs"`, `"wrong"`, `"refused"` or `"dies"`.
    left : int
        The number of models that did not run, because the probe was stopped or is a sample.
    """

    KIND = "probe"
    MODEL = False
    ALSO = ("target", "counts")
    HIDDEN = ("name", "release", "reads", "unfinished")

    name: str
    release: str
    python: str
    """The Python interpreter of the runtime."""
    date: str
    """The day of the probe."""
    results: tuple[ProbeResult, ...]
    left: int
    reads: stamps.Stamps = field(default_factory=stamps.Stamps)
    # element types of which not all models ran
    unfinished: frozenset[tuple[Key, int, Types]] = frozenset()

    @property
    def target(self) -> str:
        """The runtime and its release."""
        return f"{self.name}=={self.release}"

    @property
    def counts(self) -> ProbeCounts:
        """The number of models with each outcome."""
        counter = Counter(result.outcome for result in self.results)
        return ProbeCounts(counter[RUNS], counter[WRONG], counter[REFUSED], counter[DIES])

    @property
    def source(self) -> str:
        """A sentence about how the release was probed."""
        where = f"{platform.system()} {platform.machine()}"
        left_out = f" ({self.left} left out)" if self.left else ""
        return (
            f"opshift probe: {len(self.results)} models{left_out}, opshift {VERSION},"
            f" onnx {onnx.__version__}, {where}"
        )

    @property
    def table(self) -> probed.ProbeTable:
        """The outcomes by operator, version, element types and features."""
        release = probed.ProbedRelease(self.release, self.date, self.source)
        return probed.ProbeTable(self.name, (release,), tabulated(self.results, self.unfinished))

    def lines(self) -> Iterator[Line]:
        """Yields the number of models with each outcome, and the failures."""
        counts = self.counts
        yield Line(
            f"{self.target} of {self.python}: {counted(len(self.results), 'model')},"
            f" {counts.runs} run, {counts.wrong} compute other numbers, {counts.refused} are"
            f" refused, {counts.dies} crash the process.",
            Role.GOOD,
        )
        if self.left:
            yield Line(f"  note: {counted(self.left, 'model')} did not run", Role.CAUTION)
        for outcome in (DIES, WRONG, REFUSED):
            failures = [result for result in self.results if result.outcome == outcome]
            for number, result in enumerate(failures):
                yield Line(f"  {outcome}: {result}", more=number >= MOST)


def probe(
    python: str, name: str = "", *, ops: Collection[str] = (), sample: int | None = None,
    limits: Limits = LIMITS, path: Path | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Probing:  # fmt: skip
    """Measure the outcomes of small models of each operator in the runtime of a Python.

    Ctrl-C ends the probe and keeps its results.

    Parameters
    ----------
    python : str
        The path of a Python interpreter that has the runtime.
    name : str, optional
        The runtime, and its release if the package does not state it, as in `"rknn==2.5.0"`.
    ops : collection of str, optional
        Only these operators; all operators if it is empty.
    sample : int, optional
        The largest number of models to run; common types and plain forms come first.
    limits : Limits, optional
        The limits for one model.
    path : Path, optional
        A file to which results are added. Models with results in this file are skipped.
    progress : callable, optional
        A function that is called with the number of finished models and the number of all models.
    """
    requested, _, release = name.partition("==")
    runtime = other_runtime.find(
        python, targets.called(requested) or requested if requested else "", limits
    )
    runtime_name = targets.called(requested) or requested or runtime.name
    release = _release(release or runtime.version, runtime_name)
    adapters = registry.default()
    waiting = models(adapters, ops)
    if not waiting:
        raise BadTarget(f"no operator has the name {', '.join(sorted(ops))}; correct the name")
    file = ResultFile.of(path, f"{runtime_name}=={release}", waiting) if path is not None else None
    reads, done, results = file.read() if file is not None else (None, 0, [])
    if reads is None:
        reads = stamps.measure(runtime, limits)
        if file is not None:
            file.begin(reads)
    try:
        for count, batch in _batches(waiting[done:sample], adapters):
            results_of_batch = run(runtime, batch, limits)
            results += results_of_batch
            done += count
            if file is not None:
                file.add(count, results_of_batch)
            progress(done, len(waiting[:sample]))
    except KeyboardInterrupt:
        if not results:
            raise
    today = datetime.date.today().isoformat()
    remaining = waiting[done:]
    unfinished = frozenset((model.key, model.since, model.types) for model in remaining)
    return Probing(
        runtime_name, release, python, today, tuple(results), len(remaining), reads, unfinished
    )


def _release(text: str, name: str) -> str:
    """Returns a release as the tables write it: without the last of three numbers if it is 0."""
    parts = target_names.numbers(text)
    if not parts:
        raise BadTarget(
            f"the release of {name} is {text!r}, which is not a number; give the release, as in"
            f" --name {name}==1.0"
        )
    return ".".join(map(str, parts[:-1] if len(parts) == 3 and parts[-1] == 0 else parts))


def _batches(
    waiting: Sequence[ProbeModel], adapters: Registry
) -> Iterator[tuple[int, list[ProbeCase]]]:
    """Yields batches: the number of their models, and the legal models with expected results.

    Each batch is sized by the time of the last batch, because some runtimes need seconds to start,
    and others need seconds for each model.
    """
    start, size = 0, FIRST_BATCH
    while start < len(waiting):
        began = time.monotonic()
        part = waiting[start : start + size]
        yield len(part), [ready for model in part if (ready := case(model, adapters)) is not None]
        start += len(part)
        next_size = size * BATCH_SECONDS / max(time.monotonic() - began, 1e-3)
        size = max(1, min(int(next_size), 2 * size, MOST_IN_BATCH))


def run(runtime: OtherRuntime, batch: Sequence[ProbeCase], limits: Limits) -> list[ProbeResult]:
    """Runs cases in one process, or in more processes if a case ends its process.

    A case gets no result if the runtime omits an output, because runtimes may omit unused outputs.
    """
    answers = runtime.run_models(
        [(case_to_run.model, case_to_run.inputs) for case_to_run in batch], limits
    )
    return [
        _judged(case_to_run, answer)
        for case_to_run, answer in zip(batch, answers, strict=True)
        if answer.outcome != other_runtime.NOT_SENT
        and (answer.error or case_to_run.expected.keys() <= answer.results[0][0].keys())
    ]


def _judged(tested: ProbeCase, answer: Answer) -> ProbeResult:
    model = tested.probe
    outcome, detail = OUTCOMES.get(answer.outcome, RUNS), answer.error
    if outcome == RUNS and (detail := _difference(tested, answer.results[0][0])):
        outcome = WRONG
    return ProbeResult(model.key, model.since, model.types, model.features, outcome, detail)


def _difference(tested: ProbeCase, outputs: Mapping[str, Any]) -> str:
    """Describes the first difference from the expected values; empty if there is none."""
    for name, expected in tested.expected.items():
        if name in tested.random:
            continue
        actual = _in_type(_in_shape(outputs[name], expected), expected)
        difference = StatedTolerance().at(expected).difference(expected, actual)
        if difference and not _close(expected, actual):
            return f"{name!r}: {difference}"
    return ""


def _in_shape(actual: Any, expected: Any) -> Any:
    """Reshapes an array if it only lacks or adds axes of size 1, as in old releases of OpenCV."""
    if not all(isinstance(array, np.ndarray) for array in (actual, expected)):
        return actual
    sizes = ([size for size in array.shape if size != 1] for array in (actual, expected))
    return actual.reshape(expected.shape) if next(sizes) == next(sizes) else actual


def _in_type(actual: Any, expected: Any) -> Any:
    """Casts an array to the expected type if this keeps its numbers.

    Some runtimes have only float tensors, or lack int64.
    """
    if not all(
        isinstance(array, np.ndarray) and array.dtype.kind in "biuf" for array in (actual, expected)
    ):
        return actual
    with np.errstate(all="ignore"):
        cast = actual.astype(expected.dtype)
        is_equal = expected.dtype.kind == "f" or np.array_equal(cast.astype(actual.dtype), actual)
    return cast if is_equal else actual


def _close(expected: Any, actual: Any) -> bool:
    """Returns whether floats differ by no more than usual for another order of computation."""
    share = SHARES.get(element_type(expected), 0.0)
    if not share or element_type(actual) != element_type(expected):
        return False
    with np.errstate(all="ignore"):
        apart = distance(expected, actual)
        finite = np.isfinite(expected)
        same = np.array_equal(finite, np.isfinite(actual)) if apart is not None else False
        largest = float(np.max(np.abs(expected), initial=0.0, where=finite))
    usual = largest <= LARGE  # next to a huge number, the allowed share would hide every difference
    return bool(same and usual) and apart is not None and apart <= share * largest


# -- the table -----------------------------------------------------------------------------------


def tabulated(
    results: Iterable[ProbeResult], unfinished: Collection[tuple[Key, int, Types]] = ()
) -> dict[Key, dict[int, probed.Outcomes]]:
    """Returns the outcomes of element types, and the features that explain failures.

    Element types count as failing only if every model with these types fails, and the models have
    no attribute or optional input in common. Element types stay unknown if a model with these types
    did not run.
    """
    groups: dict[tuple[Key, int], list[ProbeResult]] = {}
    for result in results:
        groups.setdefault((result.key, result.since), []).append(result)
    by_operator: dict[Key, dict[int, probed.Outcomes]] = {}
    here = frozenset({0})
    for (key, since), group in groups.items():
        schema = schemas.schema(*key, since)
        names = probed.variables(schema) if schema is not None else ()
        types = _by_types(group)
        ran = frozenset().union(*(result.features for result in group if result.outcome == RUNS))
        features = {(RUNS, feature): here for feature in sorted(ran) if "=" not in feature}
        tried = [result for result in group if (key, since, result.types) not in unfinished]
        failed = [
            result for result in tried if result.outcome != RUNS and types[result.types] == RUNS
        ]
        blamed, unexplained = _explained(failed, ran)
        features |= dict.fromkeys(sorted(blamed), here)
        types |= {result.types: PARTLY for result in unexplained}
        whole = {of: outcome for of, outcome in types.items() if outcome in FAILED}
        for of, outcome in whole.items():
            common, complete = _common(group, of, schema), (key, since, of) not in unfinished
            if common or not complete:
                del types[of]
            if complete and len(common) == 1 and not common & ran:
                features[outcome, min(common)] = here
        outcomes = {(outcome, of): here for of, outcome in types.items()}
        by_operator.setdefault(key, {})[since] = probed.Outcomes(names, outcomes, features)
    return by_operator


def _common(
    group: Iterable[ProbeResult], types: Types, schema: schemas.Schema | None
) -> frozenset[str]:
    """Returns the optional node features that all models of these element types share."""
    stated = schema.attributes if schema is not None else {}
    needed = {"@rank", *(f"@{name}" for name, attribute in stated.items() if attribute.required)}
    return frozenset.intersection(*(_names(x.features) for x in group if x.types == types)) - needed


def _by_types(group: Iterable[ProbeResult]) -> dict[Types, str]:
    """Returns the best outcome for each choice of element types, or the worst failure."""
    by_types: dict[Types, set[str]] = {}
    for result in group:
        by_types.setdefault(result.types, set()).add(result.outcome)
    order = (RUNS, DIES, WRONG, REFUSED)
    return {types: next(o for o in order if o in outcomes) for types, outcomes in by_types.items()}


def _explained(
    failed: Sequence[ProbeResult], ran: frozenset[str]
) -> tuple[set[tuple[str, str]], list[ProbeResult]]:
    """Returns the features that explain failures, and the failures without explanation.

    A feature is an attribute or an optional input. A feature explains the failure of a model if the
    model has no other feature that occurs in no model that ran. For an attribute with several
    values, the feature is the attribute if none of its values ran; otherwise it is the attribute
    with its value.
    """
    new = frozenset().union(*(result.features for result in failed)) - ran
    alone = {result.features & new for result in failed if len(_names(result.features & new)) == 1}
    values = Counter(_name(feature) for feature in frozenset().union(*alone) if "=" in feature)

    def strange(result: ProbeResult) -> list[str]:
        return [
            feature for feature in sorted(result.features & new)
            if (_name(feature) in ran or values[_name(feature)] == 1) == ("=" in feature)
        ]  # fmt: skip

    blamed: set[tuple[str, str]] = set()
    for result in failed:
        suspects = strange(result)
        if len(suspects) == 1:
            blamed.add((result.outcome, suspects[0]))
    explaining = {feature for _, feature in blamed}
    unseen = (result for result in failed if not explaining.intersection(result.features))
    return blamed, [result for result in unseen if all("=" in name for name in strange(result))]


def _name(feature: str) -> str:
    """Returns the name of a feature, such as `@axis` for the feature `@axis=1`."""
    return feature.partition("=")[0]


def _names(features: Iterable[str]) -> frozenset[str]:
    return frozenset(map(_name, features))
