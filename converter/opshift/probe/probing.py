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
from opshift.report import SCHEMA_VERSION
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


@dataclass(frozen=True, slots=True, repr=False)
class Probing(Shown):
    """The outcomes of the models of a probe in a runtime.

    Attributes
    ----------
    target : str
        The runtime and its release, in the form of the option `--for`.
    results : tuple of ProbeResult
        Each model with its outcome: `"runs"`, `"wrong"`, `"refused"` or `"dies"`.
    left : int
        The number of models that did not run, because the probe was stopped or is a sample.
    """

    name: str
    release: str
    python: str
    date: str
    results: tuple[ProbeResult, ...]
    left: int
    reads: stamps.Stamps = field(default_factory=stamps.Stamps)
    # element types of which not all models ran
    unfinished: frozenset[tuple[Key, int, Types]] = frozenset()

    @property
    def target(self) -> str:
        return f"{self.name}=={self.release}"

    @property
    def counts(self) -> dict[str, int]:
        """The number of models with each outcome."""
        found = Counter(one.outcome for one in self.results)
        return {outcome: found[outcome] for outcome in (RUNS, *FAILED)}

    @property
    def source(self) -> str:
        """A sentence about how the release was probed."""
        where = f"{platform.system()} {platform.machine()}"
        left = f" ({self.left} left out)" if self.left else ""
        return (
            f"opshift probe: {len(self.results)} models{left}, opshift {VERSION},"
            f" onnx {onnx.__version__}, {where}"
        )

    @property
    def table(self) -> probed.ProbeTable:
        """The outcomes by operator, version, element types and features."""
        release = probed.ProbedRelease(self.release, self.date, self.source)
        return probed.ProbeTable(self.name, (release,), tabulated(self.results, self.unfinished))

    def as_dict(self) -> dict[str, Any]:
        """The JSON form that `opshift schema` describes."""
        results = [
            {
                "op": one.key[1], "domain": one.key[0], "version": one.since,
                "types": list(one.types), "features": sorted(one.features),
                "outcome": one.outcome, "detail": one.detail,
            }
            for one in self.results
        ]  # fmt: skip
        return {
            "schema_version": SCHEMA_VERSION, "kind": "probe", "target": self.target,
            "python": self.python, "date": self.date, "left": self.left,
            "counts": self.counts, "results": results,
        }  # fmt: skip

    def lines(self) -> Iterator[Line]:
        """Yields the number of models with each outcome, and the failures."""
        counts = self.counts
        yield Line(
            f"{self.target} of {self.python}: {counted(len(self.results), 'model')},"
            f" {counts[RUNS]} run, {counts[WRONG]} compute other numbers, {counts[REFUSED]} are"
            f" refused, {counts[DIES]} crash the process.",
            Role.GOOD,
        )
        if self.left:
            yield Line(f"  note: {counted(self.left, 'model')} were left out", Role.CAUTION)
        for outcome in (DIES, WRONG, REFUSED):
            found = [one for one in self.results if one.outcome == outcome]
            for number, one in enumerate(found):
                yield Line(f"  {outcome}: {one}", more=number >= MOST)


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
        The most models to run; common types and plain forms come first.
    limits : Limits, optional
        The limits for one model.
    path : Path, optional
        A file to which results are added. Models with results in this file are skipped.
    progress : callable, optional
        A function that is called with the number of finished models and the number of all models.
    """
    asked, _, release = name.partition("==")
    runtime = other_runtime.find(python, targets.called(asked) or asked if asked else "", limits)
    own = targets.called(asked) or asked or runtime.name
    release = _release(release or runtime.version, own)
    adapters = registry.default()
    waiting = models(adapters, ops)
    if not waiting:
        raise BadTarget(f"no operator has the name {', '.join(sorted(ops))}; correct the name")
    file = ResultFile.of(path, f"{own}=={release}", waiting) if path is not None else None
    reads, done, results = file.read() if file is not None else (None, 0, [])
    if reads is None:
        reads = stamps.measure(runtime, limits)
        if file is not None:
            file.begin(reads)
    try:
        for count, batch in _batches(waiting[done:sample], adapters):
            found = run(runtime, batch, limits)
            results += found
            done += count
            if file is not None:
                file.add(count, found)
            progress(done, len(waiting[:sample]))
    except KeyboardInterrupt:
        if not results:
            raise
    today = datetime.date.today().isoformat()
    left = waiting[done:]
    unfinished = frozenset((one.key, one.since, one.types) for one in left)
    return Probing(own, release, python, today, tuple(results), len(left), reads, unfinished)


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
    """Yields the number of models in a batch, and the legal models with inputs and results.

    Each batch is sized by the time of the last batch, because some runtimes need seconds to start,
    and others need seconds for each model.
    """
    start, size = 0, FIRST_BATCH
    while start < len(waiting):
        began = time.monotonic()
        part = waiting[start : start + size]
        yield len(part), [found for one in part if (found := case(one, adapters)) is not None]
        start += len(part)
        wanted = size * BATCH_SECONDS / max(time.monotonic() - began, 1e-3)
        size = max(1, min(int(wanted), 2 * size, MOST_IN_BATCH))


def run(runtime: OtherRuntime, batch: Sequence[ProbeCase], limits: Limits) -> list[ProbeResult]:
    """Runs cases in one process, or in more processes if a case ends its process.

    A case gets no result if the runtime omits an output, because runtimes may omit unused outputs.
    """
    answers = runtime.run_models([(one.model, one.inputs) for one in batch], limits)
    return [
        _judged(one, answer)
        for one, answer in zip(batch, answers, strict=True)
        if answer.outcome != other_runtime.NOT_SENT
        and (answer.error or one.expected.keys() <= answer.results[0][0].keys())
    ]


def _judged(one: ProbeCase, answer: Answer) -> ProbeResult:
    of = one.probe
    outcome, detail = OUTCOMES.get(answer.outcome, RUNS), answer.error
    if outcome == RUNS and (detail := _difference(one, answer.results[0][0])):
        outcome = WRONG
    return ProbeResult(of.key, of.since, of.types, of.features, outcome, detail)


def _difference(one: ProbeCase, outputs: Mapping[str, Any]) -> str:
    """Describes the first difference from the expected values; empty if there is none."""
    for name, expected in one.expected.items():
        if name in one.random:
            continue
        actual = _in_type(_in_shape(outputs[name], expected), expected)
        found = StatedTolerance().at(expected).difference(expected, actual)
        if found and not _close(expected, actual):
            return f"{name!r}: {found}"
    return ""


def _in_shape(found: Any, expected: Any) -> Any:
    """Reshapes an array if it only lacks or adds axes of size 1, as in old releases of OpenCV."""
    if not all(isinstance(one, np.ndarray) for one in (found, expected)):
        return found
    sizes = ([size for size in one.shape if size != 1] for one in (found, expected))
    return found.reshape(expected.shape) if next(sizes) == next(sizes) else found


def _in_type(found: Any, expected: Any) -> Any:
    """Casts an array to the expected type if this keeps its numbers.

    Some runtimes have only float tensors, or lack int64.
    """
    if not all(
        isinstance(one, np.ndarray) and one.dtype.kind in "biuf" for one in (found, expected)
    ):
        return found
    with np.errstate(all="ignore"):
        other = found.astype(expected.dtype)
        kept = expected.dtype.kind == "f" or np.array_equal(other.astype(found.dtype), found)
    return other if kept else found


def _close(expected: Any, found: Any) -> bool:
    """Returns whether floats differ by no more than usual for another order of computation."""
    share = SHARES.get(element_type(expected), 0.0)
    if not share or element_type(found) != element_type(expected):
        return False
    with np.errstate(all="ignore"):
        apart = distance(expected, found)
        finite = np.isfinite(expected)
        same = np.array_equal(finite, np.isfinite(found)) if apart is not None else False
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
    for one in results:
        groups.setdefault((one.key, one.since), []).append(one)
    found: dict[Key, dict[int, probed.Outcomes]] = {}
    here = frozenset({0})
    for (key, since), group in groups.items():
        schema = schemas.schema(*key, since)
        names = probed.variables(schema) if schema is not None else ()
        types = _by_types(group)
        seen = frozenset().union(*(one.features for one in group if one.outcome == RUNS))
        features = {(RUNS, one): here for one in sorted(seen) if "=" not in one}
        tried = [one for one in group if (key, since, one.types) not in unfinished]
        failed = [one for one in tried if one.outcome != RUNS and types[one.types] == RUNS]
        blamed, unexplained = _explained(failed, seen)
        features |= dict.fromkeys(sorted(blamed), here)
        types |= {one.types: PARTLY for one in unexplained}
        whole = {of: outcome for of, outcome in types.items() if outcome in FAILED}
        for of, outcome in whole.items():
            common, complete = _common(group, of, schema), (key, since, of) not in unfinished
            if common or not complete:
                del types[of]
            if complete and len(common) == 1 and not common & seen:
                features[outcome, min(common)] = here
        outcomes = {(outcome, of): here for of, outcome in types.items()}
        found.setdefault(key, {})[since] = probed.Outcomes(names, outcomes, features)
    return found


def _common(
    group: Iterable[ProbeResult], types: Types, schema: schemas.Schema | None
) -> frozenset[str]:
    """Returns the optional node features that all models of these element types share."""
    stated = schema.attributes if schema is not None else {}
    needed = {"@rank", *(f"@{name}" for name, one in stated.items() if one.required)}
    return frozenset.intersection(*(_names(x.features) for x in group if x.types == types)) - needed


def _by_types(group: Iterable[ProbeResult]) -> dict[Types, str]:
    """Returns the best outcome for each choice of element types, or the worst failure."""
    found: dict[Types, set[str]] = {}
    for one in group:
        found.setdefault(one.types, set()).add(one.outcome)
    order = (RUNS, DIES, WRONG, REFUSED)
    return {types: next(o for o in order if o in outcomes) for types, outcomes in found.items()}


def _explained(
    failed: Sequence[ProbeResult], seen: frozenset[str]
) -> tuple[set[tuple[str, str]], list[ProbeResult]]:
    """Returns the features that explain failures, and the failures without explanation.

    A feature is an attribute or an optional input. It explains the failure of a model if it is the
    model's only feature that occurs in no model that ran. For an attribute with several values, the
    feature is the attribute if none of its values ran; otherwise it is the attribute with its
    value.
    """
    new = frozenset().union(*(one.features for one in failed)) - seen
    alone = {one.features & new for one in failed if len(_names(one.features & new)) == 1}
    values = Counter(_name(one) for one in frozenset().union(*alone) if "=" in one)

    def strange(one: ProbeResult) -> list[str]:
        return [
            feature for feature in sorted(one.features & new)
            if (_name(feature) in seen or values[_name(feature)] == 1) == ("=" in feature)
        ]  # fmt: skip

    blamed: set[tuple[str, str]] = set()
    for one in failed:
        found = strange(one)
        if len(found) == 1:
            blamed.add((one.outcome, found[0]))
    known = {feature for _, feature in blamed}
    unseen = (one for one in failed if not known.intersection(one.features))
    return blamed, [one for one in unseen if all("=" in name for name in strange(one))]


def _name(feature: str) -> str:
    """Returns a feature without its value."""
    return feature.partition("=")[0]


def _names(features: Iterable[str]) -> frozenset[str]:
    return frozenset(map(_name, features))
