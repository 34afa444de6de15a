# SPDX-License-Identifier: Apache-2.0
"""The refusal of the classes of a model: one node of each is converted until some are refused."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from opshift.convert import leave
from opshift.convert.blockers import Outgrown, StepRefused
from opshift.convert.ir import needs
from opshift.convert.ir.features import OF_TYPES, TYPES
from opshift.convert.quotient import Key
from opshift.convert.quotient.class_journal import VAGUE
from opshift.convert.quotient.class_plan import NOBODY, ClassPlan, Quotient
from opshift.convert.quotient.goal import ClassGoal
from opshift.convert.quotient.model_types import Declared
from opshift.convert.quotient.refusing import PresentFacts, RefusedPlace, Refusing, bare
from opshift.convert.quotient.template import Answer, Beyond
from opshift.convert.ways import climb_for, descent_for
from opshift.errors import OpshiftError
from opshift.model.document import Document
from opshift.model.walk import tensors
from opshift.opsets import schemas
from opshift.opsets.types import LENGTH
from opshift.protos import ModelProto
from opshift.records import dataclass

Crossed = tuple[int, str, int, int]  # the number of a step, its domain and versions

_OWN = re.compile(r"k(\d+)([on]\d+)?")


@dataclass(frozen=True, slots=True)
class ClassRefusal:
    """Which classes are refused, and what becomes of all classes before."""

    keys: tuple[Key, ...]  # of each class, by number
    refused: tuple[RefusedPlace, ...]
    answers: Mapping[Key, Answer]
    written: Mapping[int, int]  # how many nodes the steps ask for, by class
    steps: tuple[Crossed, ...]
    nearest: Mapping[str, int]
    dead_ends: tuple[str, ...]


class Unclear(NamedTuple):
    """Why classes do not tell a refusal, and those of which the whole model may tell more."""

    why: str
    vague: frozenset[Key] = frozenset()


def find(
    plan: ClassPlan, goal: ClassGoal, keys: Sequence[Key], declared: Declared, ir: int
) -> ClassRefusal | Unclear:
    """The refusal of these classes, which are all of a model; `ir` is the version it goes to."""
    try:
        return _find(plan, goal, keys, declared, ir)
    except Beyond as why:
        return Unclear(str(why))


def _find(
    plan: ClassPlan, goal: ClassGoal, keys: Sequence[Key], declared: Declared, ir: int
) -> ClassRefusal | Unclear:
    quotient = Quotient(plan, keys)
    model = ModelProto()
    model.CopyFrom(quotient.model)
    work = Refusing(
        model, plan.request, plan, quotient.journal, declared, looks_late=goal.ir is None
    )
    try:
        work.run()
    except StepRefused as refused:
        told = refused.refusals
    except (OpshiftError, Outgrown, MemoryError):
        raise Beyond("a refusal that is not of a step") from None
    else:
        raise Beyond("a refusal that not all classes meet")
    last = work.steppers[-1]
    if any(one.met_blockers for one in work.steppers[:-1]) or len(told) != len(last.refused):
        raise Beyond("a refusal that is not of a class")
    _require_no_other_way(work, quotient, goal, ir)
    for one in last.refused:
        _require_class_knows(work, one)
    answers = _answers(work, quotient)
    if isinstance(answers, Unclear):
        return answers
    nearest = work.document.imports.as_dict()
    del nearest[NOBODY]
    return ClassRefusal(
        tuple(keys),
        tuple(last.refused),
        answers,
        dict(work.written),
        tuple((n, s.domain, s.start, s.to) for n, s in zip(work.numbers, work.steps, strict=True)),
        nearest,
        tuple(dict.fromkeys(dead.way for dead in work.plan.dead)),
    )


def _require_no_other_way(work: Refusing, quotient: Quotient, goal: ClassGoal, ir: int) -> None:
    """Goes on only if no other way would be tried after the refusal."""
    refusals = [one.node for one in work.steppers[-1].refused]
    version = work.document.imports[""]
    climb = climb_for(refusals, work.adapters, version)
    if climb or descent_for(refusals, work.adapters):
        raise Beyond("a refusal that a way through another version may avoid")
    if _may_be_older(work, quotient, ir):
        raise Beyond("a refusal that an older form of a type may avoid")
    if goal.row and leave.operators(Document(quotient.model), work.adapters, None, goal.row):
        raise Beyond("an operator that the runtime lacks")


def _may_be_older(work: Refusing, quotient: Quotient, ir: int) -> bool:
    """Whether content that IR `ir` lacks may be written in an older form before the steps."""
    held = [one for one in needs.held(work.document, work.facts, ir) if one.sooner]
    if not {*OF_TYPES}.issuperset(held):
        return True
    late = {name for name, since in TYPES.items() if since > ir}
    kinds = {schemas.element_name(one.data_type) for one in tensors(bare(quotient.model))}
    return not late.isdisjoint(work.declared.tensors | kinds)


def _require_class_knows(work: Refusing, one: RefusedPlace) -> None:
    """Goes on only if the refusal of a class holds nothing that other nodes decide."""
    facts, deeds = work.facts, work.journal.deeds[one.number]
    assert isinstance(facts, PresentFacts)
    own = _OWN.fullmatch(one.node.node)
    if own is None or int(own[1]) != one.number or not one.order:
        raise Beyond("a refused node that a step has written")
    detail = one.node.detail
    if work.document.prefix in detail or LENGTH in detail or "?" in detail:
        raise Beyond("a name or a symbol in a refusal")
    if id(deeds) in facts.neighbours:
        raise Beyond("the producer of a value in a refusal")


def _answers(work: Refusing, quotient: Quotient) -> Mapping[Key, Answer] | Unclear:
    """What became of each class in the steps before the refusal."""
    work.settle_nodes()
    quotient.prefix = work.document.prefix
    found = dict(zip(quotient.keys, quotient.answers(work.skeleton), strict=True))
    lacking = {key: why for key, why in found.items() if isinstance(why, str)}
    hard = next((why for why in lacking.values() if why not in VAGUE), None)
    if hard is not None:
        raise Beyond(hard)
    if lacking:
        return Unclear(next(iter(lacking.values())), frozenset(lacking))
    return {key: one for key, one in found.items() if isinstance(one, Answer)}
