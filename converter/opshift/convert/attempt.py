# SPDX-License-Identifier: Apache-2.0
"""Converts one model, without its large weights: opens it, makes every step, checks and reports."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from opshift import terms, versions
from opshift.author import inference
from opshift.author.facts import Facts
from opshift.codes.refusals import Why
from opshift.convert import (
    declare,
    equal_forms,
    ir_version,
    model_opening,
    route,
    stamp,
    target_versions,
)
from opshift.convert.blockers import StepRefused
from opshift.convert.end_checks import check_whole, corrected
from opshift.convert.ir import needs
from opshift.convert.ir.features import Feature
from opshift.convert.legal import (
    author_rules,
    checker,
    diagnose,
    model_rules,
    uncalled,
)
from opshift.convert.legal.findings import Checked
from opshift.convert.legal.function_rules import called, never_called
from opshift.convert.request import Request
from opshift.convert.runtime import form_lacks
from opshift.convert.runtime.support import ComparedModel, support_of
from opshift.convert.state import State
from opshift.convert.strategies import (
    Strategy,
    alternatives,
    descent_for,
    opset_above,
    opset_below,
    reinference_helps,
)
from opshift.errors import AdapterBug, FaultyChange, InvalidModel, Refused, RefusedNode
from opshift.model import imports, numbering, weights
from opshift.model.document import Document, function_id
from opshift.model.functions import behind, callers_of
from opshift.model.scope import FunctionId, Imports, Key, shown_function
from opshift.model.signature import signature
from opshift.opsets import schemas
from opshift.opsets.wanted import BROADCASTS, Wanted
from opshift.protos import ModelProto
from opshift.protos.copies import as_model
from opshift.report import Report

if TYPE_CHECKING:
    from opshift.opsets.targets import RuntimeRelease

# Reasons of a refusal by a runtime. An approximation in another form may avoid them.
OF_A_RUNTIME = frozenset((Why.TARGET_LACKS, Why.APPROXIMATE_ONLY))


class Conversion(State):
    """An in-place conversion of one model, without its large weights, to its target."""

    __slots__ = ()

    def run(self) -> Report:
        before = signature(self.skeleton) if self.options.bump_model_version else None
        report = self.numbered(self._run())
        return stamp.labelled(self.skeleton, report, self.options, before)

    def numbered(self, report: Report) -> Report:
        """Numbers new names in the order of the result, independently of the order of steps."""
        if not self.prefixes or not report.changed:
            return report
        names = numbering.number(self.skeleton, self.prefixes)
        sites = [
            dataclasses.replace(site, value=names.get(site.value, site.value))
            for site in report.modernized
        ]
        return dataclasses.replace(report, modernized=tuple(sites))

    def _run(self) -> Report:
        if (
            self.options.only_ir
            and not self.strategy.via_below
            and not ir_version.brings_functions(self)
        ):
            return self._restamp()
        if self.options.checks:
            ir_version.require_checkable(self.options.ir_version)
        if not self.is_open:
            self.open()
        before, ir_before = dict(self.document.imports), self.skeleton.ir_version
        target_versions.set_goal(self)
        model_opening.rename_repeated(self)
        self.notes += author_rules.differing(self.facts, self.goal)
        ir_version.plan(self)
        ir_version.write_early(self)
        try:
            route.travel(self)
            equal_forms.write(self)
            self._finish(moved=_is_moved(before, dict(self.document.imports)))
        except AdapterBug as bug:
            with diagnose.explaining(bug):
                self._trace(as_model(self.view))
            raise
        # the error may come from one change, although the whole model hides it
        except InvalidModel as fault:
            if self.options.check == "full":
                with diagnose.explaining(fault):
                    self._trace(as_model(self.view))
            raise
        if self.steps and self.options.checks:  # the new opset may give a node another meaning
            meanings = model_rules.two_meanings(Checked(self.document, self.adapters))
            self.notes += [meaning for meaning in meanings if meaning not in self.notes]
        report = self._report(before, dict(self.document.imports), ir_before)
        after = _nodes(self.document)
        return dataclasses.replace(report, nodes_before=self.nodes_before, nodes_after=after)

    def _restamp(self) -> Report:
        """Changes only the IR version, without any step."""
        model_opening.open_header(self)
        imported = dict(Imports(self.skeleton.opset_import, "the model"))
        before = self.skeleton.ir_version
        ir_version.restamp(self)
        after = dict(Imports(self.skeleton.opset_import, "the model"))
        return self._report(imported, after, before)

    def open(self) -> None:
        """Validates the source model and indexes it."""
        model_opening.open_header(self)
        self._level()
        model_opening.open_content(self)
        self.nodes_before = _nodes(self.document)
        self._fix_sizes_and_types()

    def _fix_sizes_and_types(self) -> None:
        """Fixes sizes and then changes element types before the first step, if requested."""
        options = self.options
        if options.shape or options.dim:
            from opshift.convert.requests.fixed_shapes import fix_shapes

            fix_shapes(self, options.shape or {}, options.dim or {})
        if options.types:
            from opshift.convert.requests.retype import retype

            retype(self, options.types, keep_io=options.keep_io_types)

    @property
    def is_open(self) -> bool:
        """Whether the source model has been indexed."""
        return hasattr(self, "document")

    def branch(self, options: Request, strategy: Strategy) -> Conversion:
        """Returns a copy of this conversion with other options; this conversion does not change."""
        twin = self.fork()
        twin.options, twin.strategy, twin.boundaries = options, strategy, ()
        return twin

    def others(self, refused: StepRefused | Refused | None = None) -> Iterator[Strategy]:
        """Returns strategies that may avoid a refusal, or may give a better result."""
        if not self.is_open:  # refused before the model was indexed
            return iter(())
        if refused is None:
            late, came, near = self._written_late(), self._came_with(), self._inexact()
            inexact = {key for step in self.steps for key in step.approximated}
            return alternatives(
                self.strategy, late, came, leaves=self.left_late, unsure=near,
                unread=self._unread(inexact),
                opsets=self._elsewhere(_keys(self.unrunnable) | inexact),
            )  # fmt: skip
        present_opsets = self.document.versions_of("")
        if isinstance(refused, Refused):  # refused by the IR version or a runtime, after all steps
            via_below = opset_below(refused, max(present_opsets, default=0))
            gaps = [refusal for refusal in refused.refusals if refusal.why in OF_A_RUNTIME]
            unread, opsets = self._unread(_keys(gaps)), self._elsewhere(_keys(gaps))
            return alternatives(
                self.strategy,
                self._around(gaps),
                (),
                via_below=via_below,
                unread=unread,
                opsets=opsets,
            )
        features = needs.features_above(self.facts, target_versions.ir_of_goal(self))
        refusals, inside, unsure = refused.refusals, refused.functions, refused.unsure
        via_above = opset_above(refusals, self.adapters, min(present_opsets, default=0))
        descent = descent_for(refusals, self.adapters)
        prefix = self.document.prefix
        reinfers_between = not self.strategy.reinfers_between and reinference_helps(
            refusals, self.came_at, prefix
        )
        if reinfers_between and self.view:
            contradiction = diagnose.contradiction(self, retired=False)
            if contradiction:  # a fact is missing because the model contradicts itself
                raise InvalidModel(contradiction)
        return alternatives(
            self.strategy, inside, features, via_above, descent,
            reinfers_between=reinfers_between, leaves=self.left_late, unsure=unsure,
        )  # fmt: skip

    def _unread(self, lacking: Collection[Key]) -> Collection[Key]:
        """Returns operators that the runtime supports, but only in other versions."""
        release = self.runtime
        return {key for key in lacking if release is not None and release.names(key)}

    def _around(self, gaps: Iterable[RefusedNode]) -> Collection[FunctionId]:
        """Returns functions with operators that lack a kernel; inlining may reveal their types."""
        lacking = _keys(gaps)
        functions = {root.function for root in self.document.roots if lacking & root.index.keys()}
        late = self.late if lacking else ()
        return self._with_callers(
            {function for function in functions if function is not None}
        ).union(late)

    def _with_callers(self, functions: set[FunctionId]) -> set[FunctionId]:
        """Returns the functions in `functions` and their callers, if they are called at all."""
        calls = {root.function: root.calls for root in self.document.roots if root.function}
        around = functions | behind(callers_of(calls), *functions)
        return around.intersection(called(self.document))

    def _elsewhere(self, gaps: Collection[Key]) -> Collection[int]:
        """Returns nearby opsets in which the runtime may support the given operators.

        The set has the nearest opset below and above, and the runtime's highest and preferred
        opset, because the operators may be replaced there.
        """
        target, opset = self.options.target, self.document.imports.get("") or 0
        if self.runtime is None or not isinstance(target, Wanted) or "" in target.exact:
            return ()
        floor = self.runtime.floors.get("", min(opset, BROADCASTS))
        lowest = max(floor, target.at_least.get("", 1))
        highest = self.runtime.imports.get("", opset)
        opsets = set[int]()
        for domain, op in gaps:
            if op and not domain:
                history = [schema.since for schema in schemas.history("", op)]
                opsets.update(since - 1 for since in history if lowest < since <= opset)
                opsets.update(since for since in history if opset < since <= highest)
        below, above = (
            [candidate for candidate in opsets if candidate < opset],
            [candidate for candidate in opsets if candidate > opset],
        )
        usual = [highest, self.runtime.prefer or highest] if gaps else []
        return {*sorted(below)[-1:], *sorted(above)[:1], *usual} - {opset}

    @property
    def has_choice(self) -> bool:
        """Whether another strategy may write fewer nodes than this strategy."""
        return self.left_late or bool(self._written_late()) or bool(self.unrunnable)

    def _written_late(self) -> list[FunctionId]:
        """Returns functions that the result must inline, if inlining them first may save nodes."""
        return self.late if any(step.rewritten for step in self.steps) else []

    def _inexact(self) -> set[FunctionId]:
        """Returns functions whose approximations may be avoided by inlining them at their calls."""
        return self._with_callers({function for step in self.steps for function in step.inexact})

    def _came_with(self) -> list[Feature]:
        """Returns the source's content that the wanted IR version lacks, if a step approximated."""
        if not any(step.approximations for step in self.steps):
            return []
        source = Document(as_model(self.view))
        facts = Facts(source, self.weights, self.adapters, self.inferable)
        return needs.features_above(facts, target_versions.ir_of_goal(self))

    # -- conversions inside this conversion ----------------------------------------------------

    def _level(self) -> None:
        """Converts functions to the versions of the model, before one of them is inlined."""
        versions_of_model = imports.versions(self.skeleton)
        versions_of_functions = [
            imports.versions(function)
            for function in self.skeleton.functions
            if self.strategy.inlined
        ]
        of_functions = {function.domain for function in self.skeleton.functions} - {
            *versions.DOMAINS
        }
        apart = {
            d: versions_of_model[d]
            for function_versions in versions_of_functions
            for d, v in function_versions.items()
            # the version of a function's own domain has no meaning
            if versions_of_model.get(d, v) != v and d not in of_functions
        }
        if not apart:
            return
        request = Request(apart, ir_version="keep", check="none")
        level = Conversion(self.skeleton, self.weights, request, self.adapters)
        try:
            level.run()
        except StepRefused as refused:
            raise level.refused(refused.refusals) from None
        self.steps += level.steps
        self.notes += level.notes
        self.prefixes += level.prefixes

    def inferable(self) -> bytes | ModelProto:
        """Returns the source model for type inference, converted upwards if its opset is old.

        Values have the same names in the source model and in the raised model.
        """
        if self.for_types or not 0 < self.came_at < inference.LOWEST:
            return self.base
        copy, large_tensors = weights.carve_model(as_model(self.base))
        raised = Conversion(
            copy,
            large_tensors,
            Request(inference.LOWEST, check=False),
            self.adapters,
            for_types=True,
        )
        try:
            raised.run()
        except (StepRefused, Refused):
            return self.base
        return copy

    # -- the end -------------------------------------------------------------------------------

    def _finish(self, *, moved: bool) -> None:
        self.sweep_and_sort()
        if self.options.prunes:
            self.notes += imports.prune(self.document)
        elif self.options.domains is not None:
            self.notes += imports.prune(self.document, self.options.domains)
        self._correct_declarations()
        version = self.document.imports.get("") or inference.LOWEST
        if self.steps and version < inference.LOWEST and not self.for_types:
            declare.untyped(self.facts)
        if self.steps or self.options.ir_version not in ("auto", "keep"):
            ir_version.choose_ir(self, moved=moved)
        if self.runtime is not None:
            self._suit(self.runtime)
        if self.options.checks and self.steps:
            self.notes += self._checked()

    def _checked(self) -> list[str]:
        """Returns the notes of the final check; if onnx rejects the result, finds the cause."""
        try:
            notes = check_whole(self)
        except InvalidModel as fault:
            with diagnose.explaining(fault):
                self._trace(as_model(self.view))
            raise
        if never_called(self.document) and any(step.rewritten for step in self.steps):
            before, after = as_model(self.view), as_model(self._result())
            for call in uncalled.faulty_calls(before, after, self.adapters):
                self._trace(call)
        return notes

    def _trace(self, model: ModelProto) -> None:
        """Converts a model again with full checks, and raises an error that names the cause.

        The second conversion inlines all functions, because types in functions are known only at
        calls.
        """
        if self.traces or not self.options.checks:
            return
        full = dataclasses.replace(self.options, check="full")
        for inlined in dict.fromkeys(((), tuple(map(function_id, model.functions)))):
            copy, large_tensors = weights.carve_model(model)
            # `model` no longer calls the functions that this strategy inlined.
            strategy = dataclasses.replace(self.strategy, inlined=inlined)
            again = Conversion(copy, large_tensors, full, self.adapters, strategy, traces=True)
            try:
                again.run()
            except (AdapterBug, InvalidModel, Refused, StepRefused) as error:
                is_suspected = isinstance(error, InvalidModel) and any(
                    step.suspects for step in again.steps
                )
                if is_suspected or isinstance(error, FaultyChange):
                    raise

    def _correct_declarations(self) -> None:
        """Corrects wrong declared shapes, adds notes on those used, and declares lost ranks."""
        version, release = self.document.imports.get(""), self.runtime
        rewritten = any(step.rewritten for step in self.steps)
        strict = release is not None and release.is_strict_at(version)
        if (rewritten and self.skeleton.graph.value_info) or (
            strict and checker.contradicted(self._result(), self.adapters)
        ):
            self.notes += (notes := corrected(self.facts))
            self.repaired |= bool(notes)
        if not rewritten:
            return
        self.notes += self.facts.believed()
        top = self.document.main.root.top
        if version and not self.for_types:
            confirmed = partial(self.facts.confirmed, top)
            declare.ranks(self.skeleton.graph, version, self.adapters, confirmed)

    def _suit(self, release: RuntimeRelease) -> None:
        """Refuses a result that the runtime cannot run, unless the caller wants to keep it."""
        document = Document(self.skeleton, self.document.prefix)
        facts = Facts(document, self.weights, self.adapters, self._result)
        support = support_of(ComparedModel.of(facts), release)
        self.unrunnable = list(equal_forms.refusals(self, release, support.reasons))
        if self.unrunnable and not self.options.keep_unrunnable:
            raise self.refused(self.unrunnable, release.stands_for)
        self.answer = support.in_words
        says = {lack.says for lack in (*support.reasons, *support.differing)}
        avoided = [lack for lack in self.lacked if lack.says not in says]
        self.notes += [
            f"{lack}; the result has equivalent nodes that it can run" for lack in avoided
        ]
        offers = dict.fromkeys(lack.types for lack in avoided if lack.types)
        self.notes += [
            f"{terms.option('types', change)} changes the type in the whole model instead"
            for change in self.unmade(offers)
        ]
        narrowed = form_lacks.casts_by_itself(self.skeleton.graph, release)
        self.notes += [
            f"{remark}; {terms.option('types', change)} changes the type in the model instead"
            for change, remark in ((change, narrowed[change]) for change in self.unmade(narrowed))
        ]

    def _result(self) -> bytes | ModelProto:
        return weights.checkable(self.skeleton, weights=self.weights)

    def _report(self, before: dict[str, int], after: dict[str, int], ir_before: int) -> Report:
        approximations = [text for step in self.steps for text in step.approximations]
        assumptions = [text for step in self.steps for text in step.assumptions]
        return Report(
            before,
            after,
            ir_before,
            self.skeleton.ir_version,
            self.crossed(),
            tuple(approximations),
            tuple(map(shown_function, self.inlined)),
            tuple(self.notes),
            self.repaired,
            assumptions=tuple(assumptions),
            modernized=tuple(self.sites),
            runtime=self.answer,
        )


def _is_moved(before: Mapping[str, int], after: Mapping[str, int]) -> bool:
    """Returns whether the version of an ONNX domain changed; other domains imply no IR version."""
    return any(before.get(domain) != after.get(domain) for domain in versions.DOMAINS)


def _nodes(document: Document) -> int:
    """Returns the number of nodes in all graphs and functions."""
    return sum(len(scope.proto.node) for scope in document.scopes())


def _keys(gaps: Iterable[RefusedNode]) -> set[Key]:
    return {(gap.domain, gap.op) for gap in gaps}
