# SPDX-License-Identifier: Apache-2.0
"""The conversion of a quotient: the engine as it is, with a journal of its questions and deeds."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable
from typing import Protocol, TypeVar

from opshift.author.bounds import Bounds
from opshift.author.builder import Builder
from opshift.author.facts import Facts, Survey
from opshift.author.node import Env, Node, TypePart, Value
from opshift.author.registry import Registry
from opshift.author.traits import Differs
from opshift.author.verdicts import Adapter, Keep
from opshift.convert.apply import Applier, used_constants
from opshift.convert.attempt import Conversion
from opshift.convert.change import NodeChange, Task
from opshift.convert.classes.facets import (
    COMPUTED,
    EXACT,
    PROVED,
    VARIABLE,
    Facet,
    is_told,
)
from opshift.convert.classes.operation import Operation
from opshift.convert.ir.features import TYPES
from opshift.convert.quotient.class_journal import (
    INEXACT,
    INEXACT_LENGTH,
    MEETING_CASTS,
    UNFOLDED,
    UNPROVED,
    UNPROVED_RANK,
    ClassJournal,
    Order,
    external,
)
from opshift.convert.request import Request
from opshift.convert.step import Stepper
from opshift.errors import Refusal
from opshift.model.arrays import Array, to_array
from opshift.model.document import Document
from opshift.model.names import Names
from opshift.model.scope import Place, Root, Scope
from opshift.model.walk import holds_graphs
from opshift.model.weights import Weights
from opshift.opsets.elements import T
from opshift.opsets.types import Dims, dims_of, rank_of
from opshift.protos import ModelProto, NodeProto, TensorProto, TypeProto
from opshift.records import dataclass
from opshift.report import Report

_Answer = TypeVar("_Answer")
_ALL_TYPES = frozenset((*(one.name.lower() for one in T), *TYPES))


class Classes(Protocol):
    """What is known of the classes of models."""

    adapters: Registry
    ir_version: int
    facets: list[Facet]
    operations: list[Operation]

    def touches(self, signature: int) -> bool:
        """Whether a step may look at the nodes of a signature."""


class Compilation(Conversion):
    """A conversion of a quotient."""

    def __init__(
        self, model: ModelProto, options: Request, known: Classes, journal: ClassJournal
    ) -> None:
        weights = AbsentWeights(journal=journal)
        # The checker and inference have seen each class before.
        super().__init__(model, weights, options, known.adapters, proved=True)
        self.known = known
        self.journal = journal

    def open(self) -> None:
        Conversion.open(self)
        self.journal.open(self.document.main.root)
        self.document.names = AskedNames(self.document, self.journal)
        self.facts = self.facts_of(self.document, self.store, self.adapters, self.inferable)
        self.facts.journal, self.facts.classes = self.journal, self.known
        self.facts.widen_to(_ALL_TYPES)

    @property
    def facts_of(self) -> type[AskedFacts]:
        """The class of the facts."""
        return AskedFacts

    def differing(self) -> Iterable[str]:
        root, differing = self.document.main.root, self.adapters.traits(Differs)
        for key in root.index.keys() & differing.keys():
            for place in root.index[key]:
                self.journal.current = deeds = self.journal.of(place)
                proto = place[0].node(place[1])
                node = Node(proto, root.schema_of(proto), Env(self.facts, place[0]))
                for one in differing[key] if deeds is not None else ():
                    with contextlib.suppress(Refusal):
                        if one.look(node):
                            self.journal.beyond("a node that a runtime answers otherwise")
        self.journal.current = None
        return ()

    def _settle_declarations(self) -> None:
        """Notes the declarations that were used; those of a quotient have no lengths to correct."""
        if any(step.rewritten for step in self.steps):
            self.notes += self.facts.believed()

    def meeting_casts(self) -> dict[Root, list[Place]]:
        """Notes the classes in which Casts meet; the bounds of their values decide about them."""
        for places in Conversion.meeting_casts(self).values():
            for place in places:
                deeds = self.journal.of(place)
                if deeds is not None:
                    deeds.beyond = deeds.beyond or MEETING_CASTS
        return {}

    def numbered(self, report: Report) -> Report:
        """The journal knows the new names as they are; those of an instance get numbers."""
        return report

    @property
    def stepper_of(self) -> type[Stepper]:
        return RecordingStepper

    def stepper(self, domain: str, start: int, to: int) -> Stepper:
        stepper = super().stepper(domain, start, to)
        assert isinstance(stepper, RecordingStepper)
        stepper.journal = self.journal
        self.journal.boundary = (self.journal.boundary[0] + 1, domain, start, to)
        return stepper


@dataclass(frozen=True, slots=True, kw_only=True)
class AbsentWeights(Weights):
    """The payloads of a quotient, which has only small ones: a class does not tell the others."""

    journal: ClassJournal

    def load(self, tensor: TensorProto) -> Array:
        if not self.is_stub(tensor):
            return to_array(tensor)
        self.journal.beyond("a payload")
        return to_array(TensorProto(dims=[0], data_type=tensor.data_type))


class Symbol(str):
    """A length that is no number: what else an adapter asks of it, its class does not tell."""

    journal: ClassJournal

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (int, float)):
            self.journal.beyond("the symbol of a dimension")
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        self.journal.beyond("the symbol of a dimension")
        return str.__hash__(self)


class AskedFacts(Facts):
    """Notes each question that a class alone does not answer as the whole model would."""

    journal: ClassJournal
    classes: Classes

    def type(self, scope: Scope, name: str) -> TypeProto | None:
        neighbour = self._neighbour(name)
        if neighbour is None:
            return super().type(scope, name)
        return None if neighbour.ranked is None else TypeProto.FromString(neighbour.ranked)

    def _proved(self, owner: Scope, name: str) -> TypeProto | None:
        facet = self.journal.facet(name) if name in owner.producers else None
        if facet is None or facet.ranked is None or (owner, name) in self._learned:
            return super()._proved(owner, name)
        return TypeProto.FromString(facet.ranked)  # inference of the quotient would repeat it

    def tell(
        self, scope: Scope, name: str, found: TypeProto | None, what: TypePart
    ) -> TypeProto | None:
        trust = self._trust(name)
        if what is TypePart.ELEMENT and is_told(found, what):
            return found  # a checked model has one element type, declared or inferred
        if not trust & PROVED:
            self.journal.beyond(UNPROVED)
        elif not trust & EXACT and not is_told(found, what):
            self.journal.beyond(INEXACT)
        elif what is TypePart.ALL and found is not None and not is_told(found, what):
            self._show_symbols(found)
        return found

    def _show_symbols(self, found: TypeProto) -> None:
        if found.HasField("tensor_type"):
            self.journal.beyond("the symbols of a type")

    def dims(self, scope: Scope, name: str, found: TypeProto) -> Dims:
        dims = super().dims(scope, name, found)
        if all(isinstance(one, int) for one in dims):
            return dims
        if not self._trust(name) & EXACT:
            self.journal.beyond(INEXACT_LENGTH)
        return tuple(one if isinstance(one, int) else self._symbol() for one in dims)

    def _symbol(self) -> Symbol:
        made = Symbol("?")
        made.journal = self.journal
        return made

    def constant(self, scope: Scope, name: str) -> Array | None:
        neighbour = self._neighbour(name)
        found = super().constant(scope, name) if neighbour is None else self._value(neighbour)
        known = self.journal.facet(name)
        if found is None and known is not None and not known.trust & VARIABLE:
            self.journal.beyond(UNFOLDED)
        return found

    def _neighbour(self, name: str) -> Facet | None:
        """What is known of a value that stands behind an input of a class."""
        return None if external(name) else self.journal.facet(name)

    def _value(self, facet: Facet) -> Array | None:
        value = facet.constant(self.classes.ir_version)
        return None if value is None else to_array(TensorProto.FromString(value))

    def is_longer(self, scope: Scope, name: str, length: int) -> bool:
        # A quotient holds no large initializer: an input that has its type stands for it.
        found = self.type(scope, name) if self.journal.facet(name) else None
        dims = dims_of(found) if rank_of(found) is not None and found is not None else (None,)
        sizes = [size for size in dims if isinstance(size, int)]
        if len(sizes) < len(dims) or math.prod(sizes) <= length:
            return super().is_longer(scope, name, length)
        self.tell(scope, name, found, TypePart.ALL)
        return True

    def producer(self, scope: Scope, name: str) -> Node | None:
        facet = self.journal.facet(name)
        if facet is None:
            return super().producer(scope, name)
        if not facet.trust & COMPUTED:
            return None
        # A step may have written another node in its place, and a graph has a scope of its own.
        maker = self.classes.operations[facet.maker[0]].proto if facet.maker else None
        if maker is None or self.classes.touches(facet.maker[0]) or holds_graphs(maker):
            self.journal.beyond("the producer of a value")
            return None
        node = NodeProto()
        node.CopyFrom(maker)
        for i, number in enumerate(facet.maker[1:]):
            if node.input[i]:
                behind = self.classes.facets[number]
                node.input[i] = self.journal.enter_neighbour(name, i, behind)
        return self._read(scope, node, self._env(scope))

    def is_same(self, name: str, other: str) -> bool:
        known = self.journal.facet(name) and self.journal.facet(other)
        if name != other and known and not (external(name) and external(other)):
            self.journal.beyond("whether two values are one")
        return super().is_same(name, other)

    def bounds(self, scope: Scope, name: str) -> Bounds | None:
        if self.constant(scope, name) is None:  # else they are those of the constant
            self.journal.beyond("the bounds of a value")
        return super().bounds(scope, name)

    def is_computed(self, scope: Scope, name: str) -> bool:
        facet = self.journal.facet(name)
        if facet is not None:
            return bool(facet.trust & COMPUTED)
        return super().is_computed(scope, name)

    def possible_types(self) -> frozenset[str]:
        self.journal.beyond("the types of the model")
        return super().possible_types()

    def survey(self, root: Root, look: Survey[_Answer]) -> _Answer:
        self.journal.beyond("all nodes of the model")
        return super().survey(root, look)

    def is_assumed(self, scope: Scope, name: str) -> bool:
        facet = self.journal.facet(name)
        if facet is None:
            return super().is_assumed(scope, name)
        if not facet.trust & PROVED:
            self.journal.beyond(UNPROVED_RANK, name)
        return False

    def claimed(self, scope: Scope, name: str, dims: Dims) -> Dims:
        if not all(isinstance(one, int) for one in dims):
            self.journal.beyond("a length that may be declared")
        return dims

    def widen_to(self, types: Iterable[str]) -> None:
        """Every type may occur: where all types are known, a class does not depend on others."""
        self._present = frozenset(types)

    def add_present_types(self, types: Iterable[str]) -> None:
        """Notes the types that a step brings in: functions around may be told of them."""
        self.journal.brought.update(types)

    def _trust(self, name: str) -> int:
        deeds = self.journal.current
        if deeds is None:
            return PROVED | EXACT | VARIABLE
        facet = self.journal.facet(name)
        return deeds.inputs if facet is None else facet.trust


class AskedNames(Names):
    """Notes who asks whether a value is read."""

    def __init__(self, document: Document, journal: ClassJournal) -> None:
        super().__init__(document)
        self.journal = journal

    def is_read(self, scope: Scope, name: str) -> bool:
        known = external(name)
        if known is not None:
            self.journal.deeds[known[0]].asked_readers = True
        elif self.journal.facet(name) is not None:
            self.journal.beyond("who reads the value of a neighbour")
            return True
        return super().is_read(scope, name)


class RecordingStepper(Stepper):
    """A step that notes for which class it does what."""

    journal: ClassJournal

    def applier(self) -> Applier:
        made = RecordingApplier(self.document, self.facts, self, self.step)
        made.journal = self.journal
        return made

    def _idle(self, adapter: Adapter, key: tuple[str, str]) -> bool:
        idle = super()._idle(adapter, key)
        for place in self.document.main.root.index[key] if idle else ():
            self._keep(place)
        return idle

    def ask(self, task: Task, node: Node, op: Builder) -> Value | tuple[Value, ...] | Keep:
        self.journal.current = self.journal.deeds_of(node.proto)
        try:
            return super().ask(task, node, op)
        finally:
            self.journal.current = None

    def _change(self, place: Place, task: Task) -> NodeChange | None:
        op = place[0].node(place[1]).op_type
        kept = self.step.kept[op]
        change, deeds = super()._change(place, task), self.journal.of(place)
        if self.step.kept[op] > kept:
            self._keep(place)
        elif change is None:
            return None
        elif change.made.unread is not None and deeds is not None:
            deeds.beyond = deeds.beyond or "a node that goes once nobody reads it"
        return change

    def _keep(self, place: Place) -> None:
        deeds = self.journal.of(place)
        if deeds is not None:
            kind = (self.journal.boundary, place[0].node(place[1]).op_type)
            deeds.kept[kind] = deeds.kept.get(kind, 0) + 1


def content_of(tensor: TensorProto) -> bytes:
    """The bytes of a tensor without its name."""
    bare = TensorProto()
    bare.CopyFrom(tensor)
    bare.ClearField("name")
    return bare.SerializeToString(deterministic=True)


class RecordingApplier(Applier):
    """Writes the changes of a step, and notes for which class."""

    journal: ClassJournal

    def _prepare(self, change: NodeChange) -> None:
        heirs = len(self.document.heirs)
        super()._prepare(change)
        deeds = self.journal.of(change.place)
        if deeds is None:
            return
        if len(self.document.heirs) > heirs:
            deeds.beyond = deeds.beyond or "a constant that takes the place of another"
        if change.made.carried:
            deeds.beyond = deeds.beyond or "a node whose graph stays"
        kind = (self.journal.boundary, change.kind)
        deeds.rewritten[kind] = deeds.rewritten.get(kind, 0) + 1
        used = list(used_constants(change.made))
        if used and self.journal.is_inside(change.place):
            deeds.beyond = deeds.beyond or "a constant for a node in a new graph"
            return
        for i, tensor in enumerate(used):
            deeds.placed.append(((*self._order(change), i), content_of(tensor)))

    def _note(self, change: NodeChange, written: list[Place]) -> None:
        owner = self.journal.owner(change.place)
        order = self._order(change) if owner is not None else ()
        super()._note(change, written)
        if owner is not None:
            deeds = self.journal.deeds[owner]
            deeds.renamed |= change.place[0].node(change.place[1]).op_type != change.task.key[1]
            for i, place in enumerate(written):
                self.journal.enter(place, owner, (*order, i))
                self.journal.enter_inside(place, owner)

    def _order(self, change: NodeChange) -> Order:
        return (self.journal.boundary[0], change.task.key[1], self.journal.order(change.place))
