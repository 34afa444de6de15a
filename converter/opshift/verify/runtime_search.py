# SPDX-License-Identifier: Apache-2.0
"""Converts a model so that a given runtime runs the result and computes the same.

First, the model is converted according to the known limits of the runtime. If the runtime fails or
computes other numbers, further conversions are tried. The further conversions use other opsets,
replace operators by others, or inline functions. The candidate with the lowest cost is tried first.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

from opshift.author import registry
from opshift.author.registry import Registry
from opshift.author.verdicts import ALTERNATIVE, WORDS
from opshift.child_task import Limits
from opshift.convert.cheapest_strategy import convert
from opshift.convert.request import Request
from opshift.errors import BadTarget, Refused
from opshift.model import imports, weights
from opshift.model.bytes import source
from opshift.model.bytes.source import Opened
from opshift.model.weights import Weights
from opshift.opsets import schemas, target_names, targets
from opshift.opsets.identity import normal
from opshift.opsets.targets import Lacking, RuntimeRelease
from opshift.opsets.wanted import Wanted
from opshift.protos import ModelProto
from opshift.records import dataclass
from opshift.report import Report, RuntimeAnswer
from opshift.verify import generate, lone_nodes
from opshift.verify.other_runtime import NOT_RUN, TOO_SLOW, OtherRuntime
from opshift.verify.pair import Pair
from opshift.verify.pair_results import Reference, compared, reference_of
from opshift.verify.subject import Subject, opened
from opshift.verify.tolerance import StatedTolerance
from opshift.verify.trials import NO_ANSWER, NOT_CONVERTED, OTHER_NUMBERS, RUNS, Trial, Trials
from opshift.verify.verification import Verification

LIMITS = Limits()
LARGER = "the runtime did not run generated inputs of smaller sizes"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A conversion whose result the runtime may run."""

    opset: int = 0  # 0: the opset that the table gives for the runtime
    other_forms: tuple[str, ...] = ()
    functions: bool = True
    without: tuple[str, ...] = ()  # operators that are decomposed into others

    def request(self, request: Request, target: Wanted, row: RuntimeRelease) -> Request:
        """Returns the conversion request for this candidate."""
        forms, functions = (*row.other_forms, *self.other_forms), row.functions and self.functions
        without = (*row.without, *map(Lacking.parse, self.without))
        row = replace(row, other_forms=forms, functions=functions, without=without)
        exact = {"": self.opset} if self.opset else {}
        new_target = replace(target, release=row, exact={**exact, **target.exact})
        return replace(request, target=new_target, keep_unrunnable=True)

    def trial(self, opset: int, outcome: str, detail: str = "") -> Trial:
        """Returns an entry for the report: this conversion and its outcome."""
        return Trial(opset, self.other_forms, self.functions, outcome, detail, self.without)


@dataclass(frozen=True, slots=True)
class ConvertedCandidate:
    """A conversion that was tried, and its result."""

    candidate: Candidate
    skeleton: ModelProto
    weights: Weights
    report: Report

    @property
    def opset(self) -> int:
        """The version of ai.onnx in the result; 0 if the result does not import ai.onnx."""
        return self.report.result.get("", 0)

    def cost(self, nearest: int) -> tuple[int, ...]:
        """Returns a sort key: objections, approximations, inlined functions, nodes, distance."""
        report = self.report
        reasons = len(report.runtime.reasons) if report.runtime else 0
        lost, nodes = len(report.inlined), report.nodes_after or 0
        distance = abs(self.opset - nearest)
        return reasons, len(report.approximations), lost, nodes, distance, self.opset


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The first result that runs, with its comparison; if none runs, the default result."""

    converted: ConvertedCandidate
    trials: Trials
    verification: Verification | None = None


def convert_and_run(
    file: Opened, request: Request, runtime: OtherRuntime, limits: Limits | None = None
) -> SearchResult:
    """Converts a file so that a runtime runs the result, if possible.

    Raises Refused if every conversion is refused.
    """
    with tempfile.TemporaryDirectory(prefix="opshift-") as folder:
        adapters, bounds = registry.default(), limits or LIMITS
        return _Search(file, request, runtime, bounds, Path(folder), adapters).run()


def _row(runtime: OtherRuntime) -> RuntimeRelease:
    """Returns the table entry of a runtime, or an entry without limits for an unknown runtime."""
    try:
        return targets.find(runtime.target)
    except BadTarget:
        return RuntimeRelease(runtime.name, runtime.version, {}, None, "")


class _Search:
    """The search for a conversion that a runtime runs."""

    def __init__(
        self, file: Opened, request: Request, runtime: OtherRuntime, limits: Limits, folder: Path,
        adapters: Registry,
    ) -> None:  # fmt: skip
        self.file, self.request, self.runtime, self.folder = file, request, runtime, folder
        target = {"": request.target} if isinstance(request.target, int) else request.target
        self.target = target if isinstance(target, Wanted) else Wanted(None, target)
        self.row = self.target.release or _row(runtime)
        self.adapters, self.limits = adapters, limits
        source = opened(file.at_path(str(folder), "piped.onnx"), folder, "source", adapters)
        self.pair = Pair(
            source, source, "auto", 0, StatedTolerance(), limits, adapters, runtime,
            bool(request.types),
        )  # fmt: skip
        self.seen = set[bytes]()
        self.trials: list[Trial] = []
        self.refused: Refused | None = None

    def run(self) -> SearchResult:
        """Tries the default conversion first, then the other candidates in order of their cost."""
        first = self._converted(Candidate())
        reference = reference_of(self.pair, self.request.inputs)
        if first is not None and reference.answered:
            if verification := self._run(first, reference):
                return self._result(first, verification)
            if larger := self._larger_inputs():
                reference = larger
                if verification := self._run(first, reference):
                    return self._result(first, verification, LARGER)
        model, nearest = self.pair.a.model, imports.versions(self.pair.a.model).get("", 0)
        failing = frozenset[str]()
        if first is not None:
            model, nearest = first.skeleton, first.opset
            if reference.answered and not self._too_slow:
                failing = self._failing(first)
        alternatives = [
            converted
            for candidate in self._others(model, nearest, failing)
            if (converted := self._converted(candidate)) is not None
        ]
        alternatives.sort(key=lambda alternative: alternative.cost(nearest))
        for alternative in alternatives if reference.answered else ():
            if self._too_slow:
                break  # the other results would take as long
            if verification := self._run(alternative, reference):
                return self._result(alternative, verification)
        if first is None and not alternatives:
            assert self.refused is not None
            raise self.refused
        return self._result(first or alternatives[0], None, *_unanswered(reference))

    def _larger_inputs(self) -> Reference | None:
        """Returns the results for larger generated inputs, if small ones loaded but did not run.

        Small sizes can leave a tensor without elements, which many runtimes reject.
        """
        source, failure = self.pair.a.model, self.trials[-1]
        is_known = self.request.inputs is not None or not generate.is_dynamic(source)
        if is_known or failure.outcome != NO_ANSWER or not failure.detail.startswith(NOT_RUN):
            return None
        cases = generate.cases(source, self.pair.seed, generate.LARGE, self.adapters)
        reference = reference_of(self.pair, [case.values for case in cases])
        return reference if reference.answered else None

    def _result(
        self, conversion: ConvertedCandidate, verification: Verification | None, *notes: str
    ) -> SearchResult:
        row, runtime, report = self.row, self.runtime, conversion.report
        versions = bool(row.versions and runtime.version)
        fits = not versions or target_names.fits(row.versions, runtime.version) is not None
        if row.name == runtime.name and not fits:
            note = f"{runtime.python} has {runtime.target}, but the conversion is for {row.shown}"
            notes = (*notes, note)
        elif row.name == runtime.name and verification and report.runtime:
            # The run disproves the table of the runtime.
            answer = RuntimeAnswer.of(report.runtime.target)
            conversion = replace(conversion, report=replace(report, runtime=answer))
        trials = Trials(
            runtime.target, runtime.python, bool(verification), tuple(self.trials), notes
        )
        return SearchResult(conversion, trials, verification)

    def _converted(self, candidate: Candidate) -> ConvertedCandidate | None:
        """Converts the model; returns None for a refusal or for a result that was tried before."""
        request = candidate.request(self.request, self.target, self.row)
        try:
            skeleton, large_tensors, report = convert(
                lambda: weights.carve_file(self.file), request
            )
        except Refused as refused:
            self.refused = self.refused or refused
            self.trials.append(candidate.trial(candidate.opset, NOT_CONVERTED, _reason(refused)))
            return None
        content = skeleton.SerializeToString(deterministic=True)
        if content in self.seen:
            return None
        self.seen.add(content)
        return ConvertedCandidate(candidate, skeleton, large_tensors, report)

    @property
    def _too_slow(self) -> bool:
        return bool(self.trials) and self.trials[-1].detail.startswith(TOO_SLOW)

    def _failing(self, conversion: ConvertedCandidate) -> frozenset[str]:
        """Returns the operators of a result that fail in the runtime as single nodes."""
        model, large_tensors = weights.carve_file(source.opened(self._written(conversion).path))
        return lone_nodes.failing(model, large_tensors, self.runtime, self.limits, self.adapters)

    def _others(
        self, model: ModelProto, nearest: int, failing: Collection[str]
    ) -> Iterator[Candidate]:
        """Yields further conversions; `model` is the first result, whose operators are replaced."""
        operators = {
            node.op_type for node, _ in imports.operators(model) if not normal(node.domain)
        }
        opsets = self._opsets(operators, nearest)
        yield from map(Candidate, opsets)
        if model.functions:
            yield Candidate(nearest, functions=False)
        forms = [op for op in sorted(operators) if self.adapters.get("", op, *ALTERNATIVE)]
        yield from (Candidate(nearest, (op,)) for op in forms)
        if forms:
            yield from (Candidate(opset, tuple(forms)) for opset in (nearest, *opsets))
        words = [op for op in sorted(operators) if self.adapters.get("", op, *WORDS)]
        yield from (Candidate(nearest, without=(op,)) for op in words)
        if several := tuple(sorted(failing)):
            yield from (Candidate(opset, without=several) for opset in (nearest, *opsets))

    def _opsets(self, operators: Collection[str], nearest: int) -> list[int]:
        """Returns the allowed opsets; of opsets with equal operator versions only the nearest."""
        if not nearest or "" in self.target.exact:
            return []
        low = max(self.row.floors.get("", 1), self.target.at_least.get("", 1))
        high = self.row.imports.get("") or schemas.latest("") or nearest
        tried = {_versions(operators, nearest)}
        opsets = []
        for opset in sorted(
            range(low, high + 1), key=lambda candidate: (abs(candidate - nearest), candidate)
        ):
            versions = _versions(operators, opset)
            if versions not in tried:
                tried.add(versions)
                opsets.append(opset)
        return opsets

    def _run(self, conversion: ConvertedCandidate, reference: Reference) -> Verification | None:
        """Runs a conversion; returns the comparison if it computes the same as the source."""
        pair = replace(self.pair, b=self._written(conversion))
        verification = compared(pair, reference, None, self.folder, locates=False)
        for path in self.folder.glob("converted*"):
            os.unlink(path)
        outcome = (
            RUNS if verification.equal else OTHER_NUMBERS if verification.different else NO_ANSWER
        )
        detail = "" if verification.equal else _difference(verification)
        self.trials.append(conversion.candidate.trial(conversion.opset, outcome, detail))
        return verification if verification.equal else None

    def _written(self, conversion: ConvertedCandidate) -> Subject:
        path = self.folder / "converted.onnx"
        weights.splice_to_run(conversion.skeleton, conversion.weights, os.fspath(path))
        return opened(path, self.folder, "converted", self.adapters)


def _versions(operators: Collection[str], opset: int) -> tuple[int, ...]:
    """Returns the version of each operator at an opset; 0 if the opset lacks the operator."""
    operator_schemas = (schemas.schema("", op, opset) for op in sorted(operators))
    return tuple(schema.since if schema else 0 for schema in operator_schemas)


def _reason(refused: Refused) -> str:
    first = next(iter(refused.refusals), None)
    return str(first or refused)


def _difference(verification: Verification) -> str:
    """Returns the first reason why the results of two models are not known to be equal."""
    row = next(row for row in verification.rows if row.detail)
    reason = row.detail.removeprefix("B gave no answer: ")
    return f"{row.output!r}: {reason}" if row.output else reason


def _unanswered(reference: Reference) -> Iterator[str]:
    """Yields a note if the source model cannot run, so that no comparison is possible."""
    if not reference.answered:
        reason = next((error for _, error in reference.results if error), reference.note)
        yield f"the source model has no result to compare with: {reason}"
