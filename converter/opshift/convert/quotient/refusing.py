# SPDX-License-Identifier: Apache-2.0
"""The conversion of a quotient that is refused: it records which classes are refused, and where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from opshift.author.builder import Builder
from opshift.author.node import Node, Value
from opshift.author.present_types import collect_present_types
from opshift.author.verdicts import Keep
from opshift.convert.change import NodeChange, Step, Task
from opshift.convert.quotient.class_journal import ClassJournal, Order, external
from opshift.convert.quotient.compile import (
    AskedFacts,
    Classes,
    Compilation,
    RecordingStepper,
)
from opshift.convert.quotient.model_types import Declared
from opshift.convert.request import Request
from opshift.convert.step import Stepper
from opshift.errors import RefusedNode
from opshift.model.document import Document
from opshift.model.scope import Key, Place, Root, Scope
from opshift.protos import ModelProto

REASON = "\0{}\0"
"""What stands in a text for the reason why an input is no constant, which each row has."""


class RefusedPlace(NamedTuple):
    """A refused node of a quotient: its class, and where it is in the index."""

    number: int
    key: Key
    order: Order
    node: RefusedNode


class Refusing(Compilation):
    """A conversion of a quotient that has a node of every class of a model."""

    def __init__(
        self,
        model: ModelProto,
        options: Request,
        known: Classes,
        journal: ClassJournal,
        declared: Declared,
        *,
        looks_late: bool,
    ) -> None:
        super().__init__(model, options, known, journal)
        self.declared = declared
        self.looks_late = looks_late  # whether steps ask first which types occur
        self.written = Counter[int]()  # how many nodes the steps write, by class
        self.numbers: list[int] = []  # of the steps that were made
        self.steppers: list[RefusingStepper] = []

    def open(self) -> None:
        super().open()
        self._follow_model()

    def _follow_model(self) -> None:
        assert isinstance(self.facts, PresentFacts)
        self.facts.follow_model(self.declared.tensors | self.declared.values)

    def differing(self) -> Iterable[str]:
        """Nothing: a refusal has no notes."""
        return ()

    @property
    def facts_of(self) -> type[AskedFacts]:
        return PresentFacts

    @property
    def stepper_of(self) -> type[Stepper]:
        return RefusingStepper

    def stepper(self, domain: str, start: int, to: int) -> Stepper:
        stepper = super().stepper(domain, start, to)
        assert isinstance(stepper, RefusingStepper)
        stepper.written = self.written
        if self.looks_late and not self.steppers:
            self._follow_model()
        self.steppers.append(stepper)
        return stepper

    def done(self, step: Step) -> None:
        self.numbers.append(self.journal.boundary[0])
        super().done(step)


class PresentFacts(AskedFacts):
    """Knows which element types occur in the model, and leaves reasons to its rows."""

    _declared: frozenset[str]

    def follow_model(self, declared: frozenset[str]) -> None:
        """Collects the types when they are first asked for, as facts about the model do."""
        self._present, self._declared = None, declared
        self.neighbours: set[int] = set()  # the deeds of classes that were told a producer

    @property
    def present_types(self) -> frozenset[str]:
        if self._present is None:
            shown = Document(bare(self.document.model))
            self._present = self._declared | collect_present_types(shown)
        return self._present

    def producer(self, scope: Scope, name: str) -> Node | None:
        found = super().producer(scope, name)
        if found is not None and self.journal.facet(name) is not None:
            self.neighbours.add(id(self.journal.current))
        return found

    def _why_given(self, owner: Scope, name: str) -> str | None:
        known = external(name)
        if self.journal.facet(name) is None or (known is not None and known[1] == "o"):
            return super()._why_given(owner, name)
        if known is None:
            self.journal.beyond("why the value of a neighbour is no constant")
        return REASON.format(name)


class RefusingStepper(RecordingStepper):
    """A step that records the classes of refused nodes."""

    written: Counter[int]
    passes = 0  # how often all nodes were asked
    answered = False  # whether the adapter had no objection to the present node

    def _answers(self, roots: list[Root]) -> list[NodeChange]:
        self.refused: list[RefusedPlace] = []
        self.passes += 1
        return super()._answers(roots)

    @property
    def met_blockers(self) -> bool:
        """Whether nodes were refused, even if they went and the step was made."""
        return self.passes > 1 or bool(self.blockers)

    @property
    def told(self) -> list[RefusedNode]:
        """The refusals so far."""
        return self.blockers.refused.refusals

    def ask(self, task: Task, node: Node, op: Builder) -> Value | tuple[Value, ...] | Keep:
        self.answered = False
        found = super().ask(task, node, op)
        self.answered = True
        return found

    def _change(self, place: Place, task: Task) -> NodeChange | None:
        change = super()._change(place, task)
        owner = self.journal.owner(place)
        if change is not None and owner is not None:
            self.written[owner] += len(change.made.nodes)
        if len(self.told) > len(self.refused):
            self._record(task.key, [place])
            deeds = self.journal.of(place)
            if deeds is not None and self.answered:
                deeds.beyond = deeds.beyond or "the types of what a step writes"
        return change

    def _refuse_all(self, root: Root, key: Key) -> None:
        super()._refuse_all(root, key)
        self._record(key, self._places(root, key))

    def _record(self, key: Key, places: list[Place]) -> None:
        for place, node in zip(places, self.told[len(self.refused) :], strict=True):
            owner = self.journal.owner(place)
            if owner is not None:
                order = self.journal.order(place)
                self.refused.append(RefusedPlace(owner, key, order, node))


def bare(quotient: ModelProto) -> ModelProto:
    """The nodes of a quotient, without the values around them that it alone declares."""
    shown = ModelProto()
    shown.CopyFrom(quotient)
    graph = shown.graph
    del graph.input[:], graph.output[:], graph.value_info[:], graph.initializer[:]
    return shown
