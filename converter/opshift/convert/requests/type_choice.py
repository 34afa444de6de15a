# SPDX-License-Identifier: Apache-2.0
"""Decides which values of a model change their element type, and why other values do not."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping

from opshift.author.present_types import TYPE_ATTRIBUTES
from opshift.author.traits import Saturates
from opshift.convert.requests import integer_classes
from opshift.convert.requests.overflow import magnitudes
from opshift.convert.requests.type_groups import (
    NUMBERS,
    TypeChoice,
    TypeGroup,
    changes_of,
    groups_of,
    named_type,
    numbers_in,
)
from opshift.convert.state import State
from opshift.lazy import numpy as np
from opshift.model.arrays import as_tensor
from opshift.model.names import Owned
from opshift.model.scope import Place, Scope
from opshift.model.walk import graphs_of
from opshift.model.weights import Weights
from opshift.opsets import schemas
from opshift.opsets.elements import T
from opshift.opsets.type_pairs import Change
from opshift.opsets.types import tensors_in
from opshift.protos import GraphProto, NodeProto, TensorProto, TypeProto

LARGE = 1 << 24  # larger sizes do not occur, and float32 represents all integers up to this size
CONTAINER = "Cast does not accept sequences, and inputs and outputs keep their types"


def choose(state: State, types: Mapping[int, int], *, keep_io: bool) -> TypeChoice:
    """Decides, for each value of a model, whether its element type changes."""
    choice = collected(state, types)
    for scope in state.document.scopes():
        for position in scope.sorted_positions():
            if groups := list(_groups(state, scope, position, choice)):
                choice.groups[scope, position] = groups
    _keep_out_of_range(state, choice)
    _keep_overflowing(state, choice)
    _keep_sizes(state, choice)
    if Change.BOUNDED in changes_of(types).values():
        integer_classes.keep_unproved(state, choice, keep_io=keep_io)
    if keep_io:
        main = state.document.main
        ends = {(main, name) for name in (*main.inputs, *main.outputs)}
        choice.stays |= {kind: CONTAINER for kind in choice.kinds if kind in ends & choice.solid}
    _spread_reasons(state, choice)
    _keep_between(state, choice)
    return choice


# -- the types of values -------------------------------------------------------------------------


def element_number(proto: TypeProto | None) -> int:
    """Returns the element type of a tensor, also inside a container; 0 without a tensor."""
    return next((tensor.elem_type for tensor in tensors_in(proto)), 0) if proto is not None else 0


def collected(state: State, types: Mapping[int, int]) -> TypeChoice:
    """Returns all values of the given types, before any of them is kept."""
    choice = TypeChoice(types)
    for scope in state.document.scopes():
        _collect(state, scope, choice)
    return choice


def _collect(state: State, scope: Scope, choice: TypeChoice) -> None:
    names = [*scope.inputs, *scope.initializers, *scope.sparse, *scope.producers]
    for name in dict.fromkeys(names):
        kind = _type_of(state, scope, name)
        number = element_number(kind)
        if number in choice.types:
            choice.kinds[scope, name] = number
            if kind is not None and not kind.HasField("tensor_type"):
                choice.solid.add((scope, name))


def _type_of(state: State, scope: Scope, name: str) -> TypeProto | None:
    """Returns the type of a value; a sparse initializer counts as a dense tensor."""
    owner = scope.owner(name)
    if owner is not None and name in owner.sparse:
        tensor = _sparse_values(owner)[name]
        return TypeProto(tensor_type=TypeProto.Tensor(elem_type=tensor.data_type))
    return state.facts.type(scope, name)


def _sparse_values(scope: Scope) -> dict[str, TensorProto]:
    proto = scope.proto
    sparse = proto.sparse_initializer if isinstance(proto, GraphProto) else ()
    return {tensor.values.name: tensor.values for tensor in sparse}


def _groups(state: State, scope: Scope, position: int, choice: TypeChoice) -> Iterator[TypeGroup]:
    node = scope.node(position)

    def kind(name: str) -> int:
        return choice.kinds.get((scope.owner(name), name), 0)

    def text(name: str, number: int) -> str:
        proto = TypeProto()
        proto.CopyFrom(_type_of(state, scope, name) or proto)
        for tensor in tensors_in(proto):
            tensor.elem_type = number
        return schemas.type_name(proto) or ""

    schema = scope.root.schema_of(node)
    key = (schemas.normal(node.domain), node.op_type)
    yield from groups_of(
        node, schema, kind, text, choice.types, state.document.is_call(node),
        saturates=key in state.adapters.rules(Saturates),
    )  # fmt: skip


# -- numbers that the new type cannot hold ---------------------------------------------------------


def _keep_out_of_range(state: State, choice: TypeChoice) -> None:
    """Keeps the type of constants with numbers outside of the range of the new type."""
    changes = changes_of(choice.types)
    if Change.ROUNDS not in changes.values():
        return
    for owned, tensor in _constants(state, choice):
        start = choice.kinds[owned]
        if changes[start] is not Change.ROUNDS:
            continue
        limits = _limits(choice.types[start])
        low, high = limits_of(state.weights, tensor)
        if high > limits[1]:
            to = named_type(choice.types[start])
            choice.stays[owned] = f"a value is {high:g}, but the limit of {to} is {limits[1]:g}"
        elif low < limits[0]:
            choice.small.append(owned)


def _keep_overflowing(state: State, choice: TypeChoice) -> None:
    """Keeps the type of values that overflow the new type in a test run."""
    changes = changes_of(choice.types)
    rounded = [owned for owned, kind in choice.kinds.items() if changes[kind] is Change.ROUNDS]
    if not rounded:
        return
    tested = magnitudes(state, rounded)
    choice.not_run = tested.unknown
    for value in rounded:
        to = choice.types[choice.kinds[value]]
        top, limit = tested.largest.get(value[1], 0), _limits(to)[1]
        if top > limit:
            limited = f"the limit of {named_type(to)} is {limit:g}"
            why = f"a value is {top:g} on {tested.inputs}; {limited}"
            choice.stays.setdefault(value, why)


def _constants(state: State, choice: TypeChoice) -> Iterator[tuple[Owned, TensorProto]]:
    for scope in state.document.scopes():
        for name, tensor in {**scope.initializers, **_sparse_values(scope)}.items():
            if (scope, name) in choice.kinds:
                yield (scope, name), tensor
        for position in scope.sorted_positions():
            node = scope.node(position)
            owned: Owned = (scope, node.output[0] if len(node.output) == 1 else "")
            if owned in choice.kinds:
                for attribute in node.attribute:
                    if attribute.HasField("t") and attribute.t.data_type == choice.kinds[owned]:
                        yield owned, attribute.t
                    elif NUMBERS.get(attribute.name) == choice.kinds[owned]:
                        yield owned, as_tensor(numbers_in(attribute), choice.kinds[owned])


def _limits(number: int) -> tuple[float, float]:
    """Returns the smallest normal and the largest number of a float type."""
    fraction = T(number).fraction
    return fraction.smallest_normal, fraction.largest


def limits_of(weights: Weights, tensor: TensorProto) -> tuple[float, float]:
    """Returns the smallest nonzero magnitude and the largest finite magnitude of a tensor."""
    low, high = math.inf, 0.0
    for part in weights.parts(tensor):
        sizes = np.abs(part)
        if not np.isfinite(top := sizes.max(initial=0)):
            sizes = sizes[np.isfinite(sizes)]
            top = sizes.max(initial=0)
        high = max(high, float(top))
        if not (least := sizes.min(initial=np.inf)):
            least = np.min(sizes, where=sizes > 0, initial=np.inf)
        low = min(low, float(least))
    return low, high


# -- values that keep their type together -----------------------------------------------------


def _spread_reasons(state: State, choice: TypeChoice) -> None:
    """Extends the reasons for keeping a type to all values that must have the same type.

    Values that pass between a node and its subgraphs have equal types, because no Cast can separate
    them. Values that are sequences or optionals cannot be cast either.
    """
    passed = _passed(state, choice)
    before = -1
    while before != len(choice.stays):
        before = len(choice.stays)
        for (place, start), inner in passed.items():
            groups = [group for group in choice.groups.get(place, ()) if group.start == start]
            reasons = [*map(choice.stays.get, inner), *(group.reason for group in groups)]
            if why := next(filter(None, reasons), ""):
                choice.stays = dict.fromkeys(inner, why) | choice.stays
                for group in groups:
                    group.reason = group.reason or why
        for place, groups in choice.groups.items():
            for group in groups:
                values = choice.values(place, group)
                why = next(filter(None, map(choice.stays.get, values)), "")
                group.reason = group.reason or why
                if group.stays:
                    solid = [value for value in values if value in choice.solid]
                    choice.stays |= dict.fromkeys(solid, group.reason) | choice.stays


def _passed(state: State, choice: TypeChoice) -> dict[tuple[Place, int], list[Owned]]:
    """Returns the inputs and outputs of subgraphs, by node and type."""
    passed = defaultdict[tuple[Place, int], list[Owned]](list)
    for scope in state.document.scopes():
        for position in scope.sorted_positions():
            for _, graph in graphs_of(scope.node(position)):
                inner = scope.root.by_graph[id(graph)]
                for info in (*graph.input, *graph.output):
                    value = (inner.owner(info.name), info.name)
                    if kind := choice.kinds.get(value):
                        passed[(scope, position), kind].append(value)
    return passed


def _keep_between(state: State, choice: TypeChoice) -> None:
    """Keeps the type of a value if all nodes that use it keep the type."""
    used = set[Owned]()  # values that a node with the new type or a subgraph uses
    stay = dict[Owned, str]()
    for scope in state.document.scopes():
        used |= {(scope.owner(name), name) for name in scope.outputs}
        used |= {(scope, name) for name in scope.inputs - scope.initializers.keys()}
    for place, groups in choice.groups.items():
        for group in groups:
            values = choice.values(place, group)
            if group.stays:
                stay |= dict.fromkeys(values, group.reason)
            else:
                used.update(values)
    for value, why in stay.items():
        if value not in used:
            choice.stays.setdefault(value, why)


# -- floats that are computed from sizes -----------------------------------------------------------


def _keep_sizes(state: State, choice: TypeChoice) -> None:
    """Keeps the type of floats that depend only on sizes and constants."""
    exact = {
        start: 1 << T(choice.types[start]).fraction.bits
        for start, change in changes_of(choice.types).items()
        if change is Change.ROUNDS
    }
    ends = {start: end for start, end in exact.items() if end < LARGE}
    sizes = set[Owned]()
    for scope in state.document.scopes() if ends else ():
        for position in scope.sorted_positions():
            node = scope.node(position)
            for name in node.output:
                end = ends.get(choice.kinds.get((scope, name), 0))
                if end is not None and _follows(state, choice, scope, node, sizes, end):
                    sizes.add((scope, name))
                    to = named_type(choice.types[choice.kinds[scope, name]])
                    why = f"a size may be above {end}, and {to} rounds some integers above {end}"
                    choice.stays.setdefault((scope, name), why)


def _follows(
    state: State, choice: TypeChoice, scope: Scope, node: NodeProto, sizes: set[Owned], end: int
) -> bool:
    """Returns whether a node computes floats from sizes that may be larger than `end`."""
    inputs = [(scope.owner(name), name) for name in node.input if name]
    if any(value in sizes for value in inputs):
        unrelated = (value for value in inputs if value in choice.kinds and value not in sizes)
        return all(_is_constant(state, *value) for value in unrelated)
    if len(inputs) != 1 or not any(
        attribute.name in TYPE_ATTRIBUTES for attribute in node.attribute
    ):
        return False
    bounds = state.facts.bounds(scope, inputs[0][1])
    return bounds is not None and bounds.highest > end and not _is_constant(state, *inputs[0])


def _is_constant(state: State, owner: Scope | None, name: str) -> bool:
    if owner is None or name in owner.initializers:
        return owner is not None
    return state.facts.constant(owner, name) is not None
