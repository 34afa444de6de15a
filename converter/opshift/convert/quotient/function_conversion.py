# SPDX-License-Identifier: Apache-2.0
"""Converts the functions of a model by the engine, with one call of each class beside them."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable, Iterator, Set

from opshift.author.facts import Facts
from opshift.author.present_types import collect_present_types
from opshift.author.registry import Registry
from opshift.author.verdicts import FORM
from opshift.convert.attempt import Conversion
from opshift.convert.blockers import Outgrown, StepRefused
from opshift.convert.change import Step
from opshift.convert.classes.local_functions import LocalFunctions
from opshift.convert.classes.proof import Proof
from opshift.convert.ir import needs
from opshift.convert.ir.features import FEATURES, TYPES
from opshift.convert.quotient import broken_rules, untouched
from opshift.convert.quotient.class_plan import ClassPlan, Quotient
from opshift.convert.quotient.function_bodies import NO_BODIES, Bodies, read
from opshift.convert.quotient.goal import ClassGoal
from opshift.convert.quotient.later_types import LaterTypes
from opshift.convert.quotient.model_types import types_of
from opshift.convert.quotient.template import Beyond
from opshift.convert.request import Request
from opshift.convert.step import Stepper
from opshift.errors import OpshiftError
from opshift.model import imports
from opshift.model.bytes.outline import Content
from opshift.model.document import Document, function_id
from opshift.model.weights import Weights
from opshift.protos import ModelProto
from opshift.report import Report

MOST_SETS = 16  # of calls and types, for which the functions of one goal are remembered
REFUSED = "functions that are refused"


class FactsBeside(Facts):
    """Facts about functions beside a graph of which only the types are known."""

    asked: list[bool]

    def limit_to(self, types: frozenset[str]) -> None:
        """Takes these types for all that can occur, until a step brings in others."""
        self._present = types

    def possible_types(self) -> frozenset[str]:
        self.asked.append(True)
        return super().possible_types()


class _FunctionConversion(Conversion):
    """A conversion of functions with calls that stand for a whole model."""

    present: frozenset[str]
    asked: list[bool]
    steppers: list[Stepper]

    def stepper(self, domain: str, start: int, to: int) -> Stepper:
        made = super().stepper(domain, start, to)
        self.steppers.append(made)
        return made

    def unwritten(self) -> Iterator[Step]:
        """The steps to equal forms that a report leaves out, as they write none here."""
        for one in self.steppers:
            if one.boundary == FORM and not one.step.rewritten:
                yield one.step

    def _trace(self, model: ModelProto) -> None:
        """Leaves it to the whole model to find the change at fault."""
        raise Beyond(REFUSED)

    def learn(self) -> None:
        made = FactsBeside(self.document, self.store, self.adapters, self.inferable)
        made.asked = self.asked
        made.limit_to(self.present)
        self.facts = made


def of_model(proof: Proof, plan: ClassPlan, goal: ClassGoal, aim: int) -> Bodies:
    """The functions of a model at the goal; an IR version below their types is not reached."""
    if not proof.memo.functions.protos:
        return NO_BODIES
    if goal.row is not None:
        raise Beyond("functions for a runtime")
    brought = frozenset[str]().union(*list(plan.brought))  # threads add to it
    present, known = types_of(proof), _known(proof, goal)
    key = (frozenset(proof.calls), present, brought)
    found = known.get(key)  # another thread may forget it meanwhile
    if found is None:
        found = _learned(proof, plan, goal, present, brought)
        if len(known) >= MOST_SETS:
            known.clear()
        known[key] = found
    if isinstance(found, str):
        raise Beyond(found)
    if any(TYPES.get(one, 0) > aim for one in found.types):
        raise Beyond("a type that came with a later IR version")
    return found


def _known(proof: Proof, goal: ClassGoal) -> dict[Hashable, Bodies | str]:
    """The functions for each set of calls and types, or why the calls alone do not tell them."""
    with proof.memo.lock:
        if proof.memo.classes is not proof.generation:
            raise Beyond("the memo has begun anew")
        known: dict[Hashable, Bodies | str] = proof.memo.answers.setdefault(
            ("functions", goal.name), {}
        )
    return known


def _learned(
    proof: Proof, plan: ClassPlan, goal: ClassGoal, present: frozenset[str], brought: Set[str]
) -> Bodies | str:
    quotient = Quotient(plan, list(map(untouched, proof.calls)))
    quotient.model.functions.extend(proof.memo.functions.protos)
    try:
        found = convert(quotient.model, goal, plan.adapters, present, brought)
    except Beyond as why:
        return str(why)
    if not quotient.accepts(found.model):
        return REFUSED
    functions = LocalFunctions.made(tuple(found.model.functions), proof.memo.functions.sizes)
    return dataclasses.replace(found, later_types=LaterTypes(plan, functions))


def convert(
    calls: ModelProto, goal: ClassGoal, adapters: Registry, present: frozenset[str],
    brought: Set[str],
) -> Bodies:  # fmt: skip
    """The functions beside some calls, at the goal.

    The types are those that occur in the whole model, and those that steps may bring into it.
    """
    _require_own_versions(calls)
    found, asked = _converted(calls, goal, adapters, present)
    if brought <= present:
        return found
    other, _ = _converted(calls, goal, adapters, present | brought)
    if asked or other != found:
        raise Beyond("the types of the model")
    return found


def _require_own_versions(model: ModelProto) -> None:
    """Goes on only if a function imports the version of the default domain that its model does."""
    own = imports.versions(model).get("")
    for function in model.functions:
        if imports.versions(function).get("", own) != own:
            raise Beyond("a function of another version")


def _converted(
    calls: ModelProto, goal: ClassGoal, adapters: Registry, present: frozenset[str]
) -> tuple[Bodies, bool]:
    """The functions at the goal, and whether an adapter asked which types may occur."""
    model = ModelProto()
    model.CopyFrom(calls)
    wanted = "auto" if goal.ir is None else goal.ir
    request = Request(goal.to, ir_version=wanted, node_budget=None)
    attempt = _FunctionConversion(model, Weights(), request, adapters)
    attempt.present, attempt.asked, attempt.steppers = present, [], []
    try:
        report = attempt.run()
        has_choice = attempt.has_choice
    except (StepRefused, Outgrown, OpshiftError, MemoryError):
        raise Beyond(REFUSED) from None
    if has_choice or not _is_plain(report):
        raise Beyond("functions with a choice")
    _require_only_version(calls, model, goal.to)
    _require_known_notes(report, model, broken_rules.harmless(attempt.broken) or ())
    types = frozenset[str]().union(*map(_types_in, (calls, model)))
    found = read(model, report, attempt.prefixes[0], attempt.unwritten(), types)
    return found, bool(attempt.asked)


def _types_in(model: ModelProto) -> set[str]:
    """The element types that can occur in the functions of a model."""
    alone = ModelProto(functions=model.functions)
    return collect_present_types(Document(alone))


def _is_plain(report: Report) -> bool:
    """Whether a report tells of nothing but the nodes of each step."""
    told = report.approximations, report.assumptions, report.inlined, report.modernized
    return not any(told) and not report.repaired


def _require_only_version(before: ModelProto, after: ModelProto, to: int) -> None:
    """Goes on only if nothing but one version changed in what the model and functions import."""
    if list(map(function_id, before.functions)) != list(map(function_id, after.functions)):
        raise Beyond("a function that comes or goes")
    for old, new in zip(imports.owners(before), imports.owners(after), strict=True):
        known = imports.versions(old)
        if "" in known:
            known[""] = to
        if imports.versions(new) != known:
            raise Beyond("another import")


def _require_known_notes(report: Report, model: ModelProto, broken: Iterable[str]) -> None:
    """Goes on only if the whole model tells the notes, too: about its IR version and its head."""
    held = needs.of_content(Content(model.SerializeToString()), (), bare=True, above=0)
    above = (one for one in held if one.ir > model.ir_version and not one.computes)
    known = {*broken, *map(needs.stays, FEATURES), *needs.skipped(above, model.ir_version)}
    if not known.issuperset(report.notes):
        raise Beyond("a note about a function")
