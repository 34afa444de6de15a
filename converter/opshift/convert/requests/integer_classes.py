# SPDX-License-Identifier: Apache-2.0
"""Decides which integers become narrower; values that share a type change together or stay."""

from __future__ import annotations

from collections.abc import Iterator

from networkx.utils import UnionFind

from opshift.author.facts import Facts
from opshift.convert.requests.computed_sizes import facts_about
from opshift.convert.requests.input_sizes import free_inputs
from opshift.convert.requests.type_groups import TypeChoice, changes_of, named_type
from opshift.convert.state import State
from opshift.model.document import Document
from opshift.model.names import Owned
from opshift.model.walk import holds_graphs
from opshift.opsets.elements import ELEMENTS
from opshift.opsets.type_pairs import Change
from opshift.protos import AttributeProto, NodeProto
from opshift.protos.copies import copied

GIVEN = "a caller of the model may pass any number"


def keep_unproved(state: State, choice: TypeChoice, *, keep_io: bool) -> None:
    """Keeps the type of integers unless all values that share the type are proved to fit."""
    bounded = {
        start for start, entry in changes_of(choice.types).items() if entry is Change.BOUNDED
    }
    values = [value for value, kind in choice.kinds.items() if kind in bounded]
    classes = UnionFind(values)
    reasons = dict(_fixed(state, choice, bounded))
    for place, groups in choice.groups.items():
        for group in groups:
            if group.start in bounded:
                members = choice.values(place, group)
                classes.union(*members)
                if group.stays:
                    reasons.setdefault(members[0], group.reason)
    unproved = dict(_unproved(state, choice, values, keep_io=keep_io))
    reasons = {**unproved, **reasons}
    reason_by_class = dict[Owned, str]()  # the reason for each class, by one of its values
    for value in values:
        if value in reasons:
            reason_by_class.setdefault(classes[value], reasons[value])
    choice.stays |= {
        value: reason_by_class[classes[value]]
        for value in values
        if classes[value] in reason_by_class
    }
    if not keep_io:
        ends = (*free_inputs(state.skeleton.graph), *state.document.main.outputs)
        mine = {(state.document.main, name) for name in ends}
        input_values = {(state.document.main, name) for name in free_inputs(state.skeleton.graph)}
        choice.narrow_ends |= {
            entry
            for entry in mine & choice.stays.keys()
            if choice.kinds[entry] in bounded and (entry in input_values or entry not in unproved)
        }


def _fixed(state: State, choice: TypeChoice, bounded: set[int]) -> Iterator[tuple[Owned, str]]:
    """Yields integers that enter or leave a subgraph; their type cannot change."""
    for scope in state.document.scopes():
        if scope.parent is not None:
            for name in (*scope.inputs, *scope.outputs):
                yield (scope.owner(name), name), "the value enters or leaves a subgraph"
    for place, groups in choice.groups.items():
        scope, position = place
        if holds_graphs(scope.node(position)):
            for group in groups:
                if group.start in bounded:
                    for value in choice.values(place, group):
                        op = scope.node(position).op_type
                        yield value, f"{op} passes the value to a subgraph"


def _unproved(
    state: State, choice: TypeChoice, values: list[Owned], *, keep_io: bool
) -> Iterator[tuple[Owned, str]]:
    """Yields integers that are not proved to fit the narrower type, with the reason."""
    document, facts = _with_narrow_inputs(state, choice, keep_io=keep_io)
    twins = dict(zip(state.document.scopes(), document.scopes(), strict=True))
    inputs = {} if keep_io else free_inputs(state.skeleton.graph)
    for owner, name in values:
        if owner is None or (owner is state.document.main and name in inputs):
            continue
        kind = choice.types[choice.kinds[owner, name]]
        to, (low, high) = named_type(kind), ELEMENTS[kind].limits
        bounds = facts.bounds(twins[owner], name)
        if bounds is None:
            where = GIVEN if name in owner.inputs else "the bounds of this value are not known"
            yield (owner, name), f"opshift cannot prove that {name!r} fits {to}: {where}"
        elif not (low <= bounds.lowest and bounds.highest <= high):
            far = bounds.highest if bounds.highest > high else bounds.lowest
            yield (owner, name), f"{name!r} may reach {far}, which is out of the range of {to}"


def _with_narrow_inputs(
    state: State, choice: TypeChoice, *, keep_io: bool
) -> tuple[Document, Facts]:
    """Returns a model with narrower inputs, which Casts convert to the type that nodes read."""
    model = copied(state.skeleton)
    names = () if keep_io else free_inputs(model.graph)
    for i, value in enumerate(model.graph.input):
        kind = value.type.tensor_type.elem_type
        if value.name in names and kind in choice.types:
            cast = NodeProto(op_type="Cast", input=[f"{state.document.prefix}in{i}"])
            cast.output.append(value.name)
            cast.attribute.add(name="to", type=AttributeProto.INT, i=kind)
            value.name = cast.input[0]
            value.type.tensor_type.elem_type = choice.types[kind]
            model.graph.node.append(cast)
    facts = facts_about(state, model)
    return facts.document, facts
