# SPDX-License-Identifier: Apache-2.0
"""Decides which runtimes can run a model, before and after a conversion."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Collection, Hashable, Iterable, Iterator
from typing import Annotated

from opshift.author import registry
from opshift.author.facts import Facts
from opshift.author.registry import Registry
from opshift.convert import model_opening, target_versions
from opshift.convert.blockers import Outgrown
from opshift.convert.cheapest_strategy import OpenSkeleton, opener_of
from opshift.convert.legal import diagnose, rules
from opshift.convert.request import NODE_BUDGET, Request, request_or_default
from opshift.convert.runtime.support import ComparedModel, support_of
from opshift.errors import AdapterBug, OpshiftError
from opshift.look import reach
from opshift.look.reach import Fit
from opshift.look.rehearse import Rehearsals, Skeleton
from opshift.model import imports, weights
from opshift.model.bytes import documents
from opshift.model.bytes.source import Opened
from opshift.model.document import Document
from opshift.model.weights import Weights
from opshift.opsets import targets
from opshift.opsets.targets import RuntimeRelease
from opshift.opsets.wanted import Wanted
from opshift.page.page_parts import ReleaseAnswer
from opshift.protos import ModelProto, isolation
from opshift.records import dataclass
from opshift.report import NO, NOT_KNOWN, YES, RuntimeAnswer, answer_of
from opshift.text import Line, Role, Shown, table

MAY = "may"
Source = ModelProto | str | os.PathLike[str] | Opened


@dataclass(frozen=True, slots=True, repr=False)
class Acceptance(Shown):
    """The answer whether a consumer can use a model without a conversion, with all reasons.

    The object is true only if the answer is yes. Printed by `opshift accepts`.

    Attributes
    ----------
    target : str
        The consumer: a runtime, or the versions that a program reads.
    reasons : tuple of str
        Every known reason why the consumer cannot use the model.
    unknown : tuple of str
        Facts about the consumer that are not known, as questions.
    conditions : tuple of str
        Versions above those of the consumer at which no operator of the model changed.
    remarks : tuple of str
        Assumptions about the consumer.

    Examples
    --------
    >>> import opshift
    >>> opshift.accepts("model.onnx", "tensorrt==9").answer
    'not known'
    """

    KIND = "accepts"
    ALSO = ("answer", "accepted")

    target: str
    reasons: tuple[str, ...]
    unknown: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()

    @property
    def answer(self) -> Annotated[str, YES, NO, MAY, NOT_KNOWN]:
        """Whether the consumer can use the model: `"yes"`, `"no"`, `"may"` or `"not known"`.

        `"may"` stands for versions above those of the consumer at which no operator of the model
        changed.
        """
        answer_now = answer_of(self.reasons, self.unknown)
        return MAY if answer_now == YES and self.conditions else answer_now

    @property
    def accepted(self) -> bool:
        """Whether the answer is yes."""
        return self.answer == YES

    def __bool__(self) -> bool:
        return self.accepted

    def lines(self) -> Iterator[Line]:
        """Yields the answer, every reason, the open questions and the assumptions."""
        text, role = _ANSWERS[self.answer]
        yield Line(text.format(self.target), role)
        yield from (Line(f"  {reason}") for reason in self.reasons)
        yield from (Line(f"  not known: {text}", Role.CAUTION) for text in self.unknown)
        yield from (Line(f"  {text}", Role.CAUTION) for text in self.conditions)
        yield from (Line(f"  note: {text}") for text in self.remarks)


_ANSWERS = {
    "yes": ("Yes: {} accepts the model.", Role.GOOD),
    "no": ("No: {} does not accept the model.", Role.BAD),
    "may": ("May: {} may accept the model.", Role.CAUTION),
    "not known": (
        "Not known: the versions fit {}; whether it runs the model is not known.",
        Role.CAUTION,
    ),
}


@dataclass(frozen=True, slots=True, repr=False)
class RuntimeSurvey(Shown):
    """The runtimes that can run a model, before and after a conversion.

    Printed by `opshift targets MODEL`.

    Attributes
    ----------
    fits : tuple of Fit
        One for each release.

    Examples
    --------
    >>> import opshift
    >>> {fit.target: fit.now for fit in opshift.survey("model.onnx", ["onnxruntime==1.10"]).fits}
    {'onnxruntime==1.10': 'yes'}
    """

    KIND = "survey"

    fits: tuple[Fit, ...]

    def by_runtime(self) -> Iterator[Line]:
        """Yields a summary and one line for each runtime."""
        yield from reach.lines(self.fits)
        yield from self._assumed()

    def lines(self) -> Iterator[Line]:
        """Yields one line for each release, and how the releases were selected."""
        rows = ((fit.target, fit.now, fit.after, fit.first) for fit in self.fits)
        header = ("target", "runs now", "after conversion", "what blocks it")
        yield from table(header, rows)
        yield from self._assumed()

    def _assumed(self) -> Iterator[Line]:
        assumed = dict.fromkeys(text for fit in self.fits for text in fit.remarks)
        yield from (Line(f"note: {text}") for text in assumed)


def accepts(model: Source, target: str, *, isolate: bool | None = None) -> Acceptance:
    """Ask whether a runtime runs a model as it is. Nothing is converted.

    Parameters
    ----------
    model : ModelProto or path
        The model.
    target : str
        The runtime, such as `"onnxruntime==1.10"`.
    isolate : bool, optional
        Call the C++ code of onnx in a child process, so that no model ends or hangs this process.
        By default the environment variable OPSHIFT_ISOLATE decides.

    Returns
    -------
    Acceptance
        `.answer`, `.accepted`, and every known reason why the runtime cannot run the model.

    Raises
    ------
    InvalidModel, BadTarget, TypeError, OSError
        As `opshift.convert_version`.

    Examples
    --------
    >>> import opshift
    >>> opshift.accepts("model.onnx", "onnxruntime==1.10").answer
    'yes'
    """
    release = targets.find(target)
    with documents.beside(model), isolation.isolated(isolate):
        open_skeleton = opener_of(model)
        adapters = require_valid(open_skeleton).adapters
        answer = support_of(_source_model(open_skeleton, adapters), release).in_words
    remarks = (release.remark,) if release.remark else ()
    return Acceptance(answer.target, answer.reasons, answer.unknown, remarks)


def survey(
    model: Source,
    names: Iterable[str] = (),
    request: Request | None = None,
    *,
    isolate: bool | None = None,
) -> RuntimeSurvey:
    """Tell which runtimes run a model as it is, and which run it after a conversion.

    Parameters
    ----------
    model : ModelProto or path
        The model.
    names : sequence of str
        Runtimes or releases, such as `["tensorrt", "onnxruntime==1.10"]`; all of them if empty.
    request : Request, optional
        The options of the conversion. Its target is not used.
    isolate : bool, optional
        Call the C++ code of onnx in a child process, so that no model ends or hangs this process.
        By default the environment variable OPSHIFT_ISOLATE decides.

    Returns
    -------
    RuntimeSurvey
        `.fits` has both answers and the reasons for each release.

    Raises
    ------
    InvalidModel, BadTarget, TypeError, OSError
        As `opshift.convert_version`.

    Examples
    --------
    >>> import opshift
    >>> [fit.after for fit in opshift.survey("model.onnx", ["onnxruntime==1.10"]).fits]
    ['yes']
    """
    targets.require_list("names", names)
    with documents.beside(model), isolation.isolated(isolate):
        return _survey(model, names, request_or_default(request))


def _survey(model: Source, names: Iterable[str], request: Request) -> RuntimeSurvey:
    open_skeleton = opener_of(model)
    runs, plain = require_valid(open_skeleton, request), request == Request()
    opened = _source_model(open_skeleton, runs.adapters)
    results = KnownResults(opened, runs.adapters)
    rows = _rows(names)
    now = [support_of(opened, release).in_words for release in rows]
    after = {
        i: _after(runs, rows[i], results)
        for i in sorted(range(len(rows)), key=lambda i: results.direction_and_distance(rows[i]))
        if not plain or _may_change(now[i], rows[i])
    }
    return RuntimeSurvey(
        tuple(_fit(release, now[i], after.get(i, now[i])) for i, release in enumerate(rows))
    )


def _may_change(now: RuntimeAnswer, release: RuntimeRelease) -> bool:
    """Returns whether a release may give another answer after a conversion for it.

    For a measured release, a conversion may also remove open questions about nodes and functions.
    """
    doubted = now.answer != YES and release.is_measured and bool(release.kernels)
    return (
        now.answer == NO
        or doubted
        or release.prefer is not None
        or release.next_release is not None
    )


def _fit(release: RuntimeRelease, now: RuntimeAnswer, after: RuntimeAnswer) -> Fit:
    remarks = (release.remark,) if release.remark else ()
    unknown = now.unknown or after.unknown
    return Fit(
        release.stands_for, now.answer, after.answer, now.reasons, after.reasons, unknown, remarks
    )


@diagnose.protobuf_errors()
def _source_model(open_skeleton: OpenSkeleton, adapters: Registry) -> ComparedModel:
    """Returns an unconverted model and its inferred types, which are used for many releases."""
    skeleton, large_tensors = open_skeleton()
    domains = imports.versions(skeleton).keys()
    model_opening.mend_imports(skeleton, adapters)
    imports.merge(skeleton)
    added = imports.versions(skeleton).keys() - domains
    document = rules.open_for_inference(skeleton, adapters)
    return _compared(document, large_tensors, adapters, added)


def _compared(
    document: Document, large_tensors: Weights, adapters: Registry, added: Collection[str] = ()
) -> ComparedModel:
    view = weights.checkable(document.model)
    return ComparedModel.of(Facts(document, large_tensors, adapters, lambda: view), added)


class KnownResults:
    """The converted models for some releases, which are reused for other releases.

    Two converted models of equal versions differ only in equivalent nodes. Therefore a release
    needs no own conversion if it runs the model converted for another release. A refusal names its
    runtime, so a refusal is not reused.
    """

    def __init__(self, opened: ComparedModel, adapters: Registry) -> None:
        self.opened, self.adapters = opened, adapters
        self.results: dict[Hashable, dict[bytes, ComparedModel]] = {}

    def run_by(self, release: RuntimeRelease) -> RuntimeAnswer | None:
        """Returns the answer for a release that can run an earlier converted model, or None."""
        for result in self.results.get(self._versions(release), {}).values():
            support = support_of(result, release)
            if not support.reasons:
                answer = support.in_words
                if answer.answer == YES or not release.is_measured:
                    return answer
        return None

    def add(self, release: RuntimeRelease, result: Skeleton) -> None:
        """Stores the model that was converted for a release; many releases have equal models."""
        skeleton, large_tensors = result
        results = self.results.setdefault(self._versions(release), {})
        key = hashlib.sha256(skeleton.SerializeToString(deterministic=True)).digest()
        if key not in results:
            results[key] = _compared(Document(skeleton), large_tensors, self.adapters)

    def direction_and_distance(self, release: RuntimeRelease) -> list[tuple[bool, int]]:
        """Returns a sort key: the direction and distance of the conversion in each domain.

        In the order of these keys, the conversion for each release continues the previous
        conversion.
        """
        try:
            goal, _ = self._goal_and_visits(release)
        except OpshiftError:  # the conversion raises it again
            return []
        imports_of_model = self.opened.document.imports
        moves = [
            goal[domain] - (imports_of_model.get(domain) or 0)
            for domain in sorted(goal, reverse=True)
        ]
        return [(move > 0, abs(move)) for move in moves]

    def _goal_and_visits(self, release: RuntimeRelease) -> tuple[dict[str, int], dict[str, int]]:
        return target_versions.versions_for(self.opened.document, Wanted(release), self.adapters)

    def _versions(self, release: RuntimeRelease) -> Hashable:
        """Returns the target versions for a release, and whether it runs functions."""
        goal, visits = self._goal_and_visits(release)
        return *sorted(goal.items()), None, *sorted(visits.items()), release.functions


def _rows(names: Iterable[str]) -> list[RuntimeRelease]:
    """Returns the releases with these names; without names, all except onnx itself."""
    return [
        release for name in tuple(names) or (targets.ALL,) for release in targets.releases_of(name)
    ]


def releases(before: OpenSkeleton, after: OpenSkeleton) -> list[ReleaseAnswer]:
    """Returns, for each release of a runtime, whether it can run each of two models."""
    adapters = registry.default()
    first, second = _source_model(before, adapters), _source_model(after, adapters)
    rows = []
    for release in _rows(()):
        now, then = (support_of(model, release).in_words for model in (first, second))
        why = next(iter(then.reasons or now.reasons or then.unknown), "")
        rows.append(ReleaseAnswer(release.name, release.versions, now.answer, then.answer, why))
    return rows


def within_reach(model: Source) -> list[ReleaseAnswer]:
    """Returns, for each release, whether it can run a model now and after a conversion for it."""
    return [
        ReleaseAnswer(release.name, release.versions, fit.now, fit.after, fit.first)
        for release, fit in zip(_rows(()), survey(model).fits, strict=True)
    ]


@diagnose.protobuf_errors()
def require_valid(open_skeleton: OpenSkeleton, request: Request | None = None) -> Rehearsals:
    """Returns an object for trial conversions of a model; raises InvalidModel for a bad model."""
    runs = Rehearsals(open_skeleton, request or Request(), registry.default())
    runs.opened()
    return runs


def _after(runs: Rehearsals, release: RuntimeRelease, results: KnownResults) -> RuntimeAnswer:
    """Returns whether a runtime can run the model after a conversion for it, with reasons."""
    options = dataclasses.replace(runs.options, target=Wanted(release), node_budget=NODE_BUDGET)
    try:
        if (answer := results.run_by(release)) is not None:
            return answer
        done = runs.rehearse(options)
    except Outgrown:
        text = (
            "whether the model can be converted: the model becomes too large to continue the search"
        )
        return RuntimeAnswer.of(release.stands_for, unknown=(text,))
    except AdapterBug as bug:
        fault = f"this is a bug of an adapter, not of your model: {bug}"
        text = f"whether the model can be converted: {fault}"
        return RuntimeAnswer.of(release.stands_for, unknown=(text,))
    except OpshiftError as error:
        return RuntimeAnswer.of(release.stands_for, (str(error),))
    if done.report is None or done.report.runtime is None or done.result is None:
        return RuntimeAnswer.of(release.stands_for, tuple(map(str, done.refusals)))
    results.add(release, done.result)
    return done.report.runtime
