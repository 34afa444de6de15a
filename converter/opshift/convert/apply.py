# SPDX-License-Identifier: Apache-2.0
"""Writes the new nodes of a step into the model, and records the element types they add."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from opshift.author.builder import Crossing
from opshift.author.facts import Facts
from opshift.author.present_types import types_from
from opshift.author.written import Made
from opshift.convert.change import NodeChange, Step
from opshift.lazy import numpy as np
from opshift.model.arrays import Array, to_array
from opshift.model.document import Heritage, heritage_of
from opshift.model.replace import Replacement, replace_nodes
from opshift.model.scope import FunctionId, Place, Scope
from opshift.model.walk import graphs_of, named, nodes_in, nodes_inside, reads
from opshift.opsets import schemas
from opshift.protos import TensorProto


class Applier:
    """Writes all changes of one step into the model, after all of them are known."""

    def __init__(self, facts: Facts, crossing: Crossing, step: Step) -> None:
        self.document = facts.document
        self.facts = facts
        self.crossing = crossing
        self.step = step

    def apply(self, changes: list[NodeChange]) -> list[Place]:
        """Writes all changes of a step at once, and returns the positions of the new nodes."""
        for change in changes:
            self._prepare(change)
        places = replace_nodes(
            self.document,
            [Replacement(c.place, c.made.nodes, c.made.carrier, c.made.carried) for c in changes],
        )
        for change, written in zip(changes, places, strict=True):
            self._note(change, written)
        return [place for written in places for place in written]

    def _note(self, change: NodeChange, written: list[Place]) -> None:
        """Records the adapter of the new nodes, and the element types that the nodes add."""
        self.step.touched |= dict.fromkeys(written, change.task.adapter.source)
        for place in written:
            carried = change.made.carried if place == change.place else frozenset[str]()
            self._add_present_types(*place, carried)

    def _prepare(self, change: NodeChange) -> None:
        """Records what would be lost when the old node is replaced, such as its output types."""
        scope = change.place[0]
        self._record_types(change)
        self._log(change)
        self._remember_origin(change)
        used = list(used_constants(change.made))
        if used:
            self._inherit_names(change, used)
        for tensor in used:
            self.document.place_constant(scope.root, tensor)
            self.facts.add_present_types([schemas.element_name(tensor.data_type) or ""])

    def _inherit_names(self, change: NodeChange, used: list[TensorProto]) -> None:
        """Gives new constants the names of the old node's constants that they replace."""
        scope, replacement, target = change.place[0], change.made, change.node.proto
        read = {name for node in replacement.nodes for name in node.input}
        lost = [name for name in target.input if name not in read]
        gained = {tensor.name for tensor in used} - self.document.inherited.keys()
        heritages = {name: heritage for name in lost if (heritage := self._heritage(scope, name))}
        for node in replacement.nodes if heritages else ():
            alike = node.op_type == target.op_type
            for i, name in enumerate(node.input):
                if name not in gained:
                    continue
                at_its_place = target.input[i] if alike and i < len(target.input) else ""
                old = (
                    at_its_place
                    if at_its_place in heritages
                    else self._equal(change, name, heritages)
                )
                if old:
                    self.document.inherited[name] = heritages.pop(old)
                    gained.discard(name)

    def _heritage(self, scope: Scope, name: str) -> Heritage | None:
        """Returns the name and notes of an initializer or constant, for its replacement."""
        owner = scope.owner(name) if name else None
        if owner is None or name in owner.inputs:
            return None
        if (tensor := owner.initializers.get(name)) is not None:
            return heritage_of(owner, tensor, name)
        position = owner.producers.get(name)
        if position is None or owner.node(position).op_type != "Constant":
            return None
        value = next((a.t for a in owner.node(position).attribute if a.HasField("t")), None)
        return heritage_of(owner, value, name) if value is not None else None

    def _equal(self, change: NodeChange, name: str, candidates: Iterable[str]) -> str:
        """Returns the name of the old constant with the same elements as the new one, or ""."""
        new = to_array(change.made.constants[name])
        for old in candidates:
            value = self.facts.constant(change.place[0], old)
            if value is not None and value.shape == new.shape and is_equal(value, new):
                return old
        return ""

    def _add_present_types(self, scope: Scope, position: int, carried: frozenset[str]) -> None:
        """Adds the element types that new nodes use to the element types of the model."""
        written = scope.node(position)
        new = [graph for name, graph in graphs_of(written) if name not in carried]
        for node in (written, *(node for graph in new for node in nodes_in(graph))):
            domain = schemas.normal(node.domain)
            version = self.crossing.version(scope.root, domain)
            schema = schemas.schema(domain, node.op_type, version)
            if schema is not None:
                self.facts.add_present_types(types_from(node, schema))

    def _record_types(self, change: NodeChange) -> None:
        """Records the output types of a node that an earlier step wrote, before its removal."""
        scope = change.place[0]
        for name in filter(self.document.is_written, change.node.proto.output):
            if (kind := self.facts.type(scope, name)) is not None:
                claimed = self.facts.is_assumed(scope, name)
                counted = self.facts.is_counted(scope, name)
                self.facts.record_type(scope, name, kind, claimed=claimed, counted=counted)

    def _remember_origin(self, change: NodeChange) -> None:
        """Maps values of new nodes to their source node, so that refusals name that node."""
        proto, document, made = change.node.proto, self.document, change.made.nodes
        inner = [n for node in made for n in nodes_inside(node)]
        written = [
            o for node in (*made, *inner) for o in node.output if o.startswith(document.prefix)
        ]
        old = set(proto.output).difference(written)
        others = [o for n in made if n.op_type != proto.op_type for o in n.output if o in old]
        origin = document.origin(proto) or named(proto)
        document.origins |= dict.fromkeys((*others, *written), origin)
        if written:
            self._remember_missed(change, next(filter(None, proto.output), ""))

    def _remember_missed(self, change: NodeChange, first: str) -> None:
        """Records the option `assume` that would have avoided new nodes, for error messages."""
        missed, op = self.document.missed, change.node.op
        avoided = missed.get(first) or next(iter(change.made.missed), None)
        if avoided is None:
            return
        for node in change.made.nodes:
            if first in missed or node.op_type != op:
                missed.update(dict.fromkeys(node.output, avoided))

    def _functions_near(self, change: NodeChange) -> set[FunctionId]:
        """Returns the function that contains a node, and the functions that compute its inputs."""
        scope, own_function = change.place[0], change.place[0].root.function
        return self.document.calls_behind(scope, change.node.proto) | (
            {own_function} if own_function else set()
        )

    def _log(self, change: NodeChange) -> None:
        op, replacement = change.task.key[1], change.made
        self.step.rewritten[change.kind] += 1
        if replacement.approximations or replacement.assumptions:
            where = f"{op} {change.node.name or change.node.proto.output[0]!r}"
            self.step.approximations += [f"{where}: {why}" for why in replacement.approximations]
            if replacement.approximations:
                self.step.approximated.add(change.task.key)
                self.step.inexact |= self._functions_near(change)
            assumed = sorted(replacement.assumptions, key=lambda assumption: assumption.value)
            self.step.assumptions += [
                f"{where}: {assumption.clause} ({assumption.value})" for assumption in assumed
            ]


def used_constants(replacement: Made) -> Iterator[TensorProto]:
    """Yields the new constants that at least one of the new nodes reads."""
    if replacement.constants:
        read = {name for node in replacement.nodes for name in reads(node)}
        for name, tensor in replacement.constants.items():
            if name in read:
                yield tensor


def is_equal(old: Array, new: Array) -> bool:
    """Returns whether two arrays of equal shape hold equal elements, whatever their types."""
    if old.dtype.hasobject != new.dtype.hasobject:
        return False
    with np.errstate(invalid="ignore"):  # NaN cannot be converted to an integer
        return bool((old.astype(new.dtype) == new).all())
