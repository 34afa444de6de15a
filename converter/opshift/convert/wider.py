# SPDX-License-Identifier: Apache-2.0
"""Computes nodes in wider element types for which a runtime has a kernel."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from opshift.author.builder import Builder
from opshift.author.facts import ScopeEnv
from opshift.author.node import Node, Result, Value
from opshift.author.traits import ByWidth
from opshift.author.verdicts import WIDER, Adapter, Rewrite
from opshift.author.widening import OUTPUT_TYPES, in_wider_types
from opshift.convert.runtime import form_lacks, kernel_lacks
from opshift.convert.state import State
from opshift.model.scope import Key, Place, Root
from opshift.model.walk import holds_graphs
from opshift.opsets import schemas
from opshift.opsets.elements import ELEMENTS, NAMED, T
from opshift.opsets.schemas import Param, Schema

if TYPE_CHECKING:
    from opshift.opsets.targets import RuntimeRelease

FLOATS = (T.FLOAT, T.DOUBLE)
NARROW_FLOATS = (T.FLOAT16, T.BFLOAT16)
# In order of preference: runtimes have more kernels for the first types.
PREFERRED = (T.INT32, T.INT64, T.UINT32, T.UINT64, *FLOATS)

# The wider element type of each type variable that changes.
Wider: TypeAlias = "tuple[tuple[str, T], ...]"


def lacked(state: State, release: RuntimeRelease) -> Iterator[tuple[Key, Wider, list[Place]]]:
    """Yields nodes that a runtime can run only in wider types, by operator and types."""
    places_by_key: dict[tuple[Root, Key, Wider], list[Place]] = {}
    for place, key, wider in (*_without_kernel(state, release), *_in_narrow_form(state, release)):
        if _keeps_results(state, place, key, wider):
            places_by_key.setdefault((place[0].root, key, wider), []).append(place)
    for (_, key, wider), places in places_by_key.items():
        yield key, wider, places


@functools.cache
def adapter(key: Key, wider: Wider) -> Adapter:
    """Returns the adapter that computes an operator in wider types."""

    def widen(node: Node, op: Builder) -> Result:
        return in_wider_types(node, op, dict(wider))

    return Adapter(
        (key[1],), *WIDER, Rewrite(widen, handles_types=True), key[0], frozenset({"Cast"}),
        summary="The runtime has no kernel for an element type; a wider one is used.",
        source=f"{__name__}.widen",
    )  # fmt: skip


def _without_kernel(state: State, release: RuntimeRelease) -> Iterator[tuple[Place, Key, Wider]]:
    """Yields nodes without a kernel for their types, with the nearest wider types that have one."""
    for place, key, types, missing in kernel_lacks.without_kernel(
        state.facts, release, untried=True
    ):
        root = place[0].root
        schema = schemas.schema(*key, root.imports.get(key[0]) or 1)
        if schema is None:
            continue
        closed, moves = missing.choices | missing.in_doubt, _rule(state, key) is None
        for wider in _choices(schema, missing.variables, types, moves=moves):
            chosen = {v: to.name.lower() for v, to in wider}
            pairs = zip(missing.variables, types, strict=True)
            choice = tuple(chosen.get(v, kind) for v, kind in pairs)
            if choice not in closed and kernel_lacks.is_tried(root, key, missing.variables, choice):
                yield place, key, wider
                break


def _in_narrow_form(state: State, release: RuntimeRelease) -> Iterator[tuple[Place, Key, Wider]]:
    """Yields nodes that a runtime handles wrongly unless the type of one input is wider."""
    doubts = (
        form_lacks.misread_nodes(state.facts, release, doubtful=doubtful)
        for doubtful in (False, True)
    )
    for key, form, places in itertools.chain.from_iterable(doubts):
        for place in places if form.wider else ():
            schema = schemas.schema(*key, place[0].root.imports.get(key[0]) or 1)
            params = schema.inputs if schema is not None else ()
            yield from (
                (place, key, ((param.variable, T.FLOAT),))
                for param in params
                if param.name in form.wider.split()
            )


def _choices(
    schema: Schema, variables: Sequence[str], types: Sequence[str], *, moves: bool
) -> Iterator[Wider]:
    """Yields wider types for some type variables of an operator, nearest first."""
    accepted = schema.types_by_variable
    output_variables = {param.variable for param in schema.outputs}
    each = [
        [
            None,
            *_wider(kind, accepted[v], floats=moves and _only_moves(v, accepted, output_variables)),
        ]
        for v, kind in zip(variables, types, strict=True)
    ]
    positions = itertools.product(*(range(len(kinds)) for kinds in each))
    for at in sorted(positions, key=lambda at: (sum(map(bool, at)), at))[1:]:
        picked = (kinds[i] for kinds, i in zip(each, at, strict=True))
        yield tuple((v, to) for v, to in zip(variables, picked, strict=True) if to is not None)


def _only_moves(
    variable: str, accepted: Mapping[str, frozenset[str]], output_variables: Collection[str]
) -> bool:
    """Returns whether an operator only moves or compares elements, so that integers may be floats.

    An operator only moves or compares elements if it accepts strings, or if no output has the type
    of the input.
    """
    return "tensor(string)" in accepted[variable] or variable not in output_variables


def _wider(kind: str, accepted: frozenset[str], *, floats: bool) -> Iterator[T]:
    """Yields the wider types that an operator accepts in place of an element type."""
    element = NAMED.get(kind)
    if element is None or element.number in FLOATS:
        return
    for wider_kind in PREFERRED:
        name = wider_kind.name.lower()
        fits = floats or wider_kind not in FLOATS or element.number in NARROW_FLOATS
        if fits and wider_kind.element.holds(element) and f"tensor({name})" in accepted:
            yield wider_kind


def _rule(state: State, key: Key) -> ByWidth | None:
    return state.facts.adapters.rules(ByWidth).get(key)


def _keeps_results(state: State, place: Place, key: Key, wider: Wider) -> bool:
    """Returns whether a node gives equal results in wider types, and its types can be changed."""
    scope, at = place
    proto, variables = scope.node(at), dict(wider)
    schema = schemas.schema(*key, scope.root.imports.get(key[0]) or 1)
    if schema is None or holds_graphs(proto) or _writes_no_tensor(schema):
        return False
    node, rule = Node(proto, schema, ScopeEnv(state.facts, scope)), _rule(state, key)
    floats = all(to in FLOATS for to in variables.values())
    if rule is not None and rule.concerns(node, floats=floats):
        return False
    inputs = _by_variable(schema.ends(node.inputs))
    outputs = _by_variable(schema.ends((), node.outputs))
    kinds = [
        (to, read_or_written.elem_type_or_none)
        for v, to in wider
        for read_or_written in (*inputs.get(v, ()), *outputs.get(v, ()))
    ]
    if any(kind not in ELEMENTS or not to.element.holds(ELEMENTS[kind]) for to, kind in kinds):
        return False
    chosen = any(name in schema.attributes for name in OUTPUT_TYPES)
    return chosen or outputs.keys() & variables.keys() <= inputs.keys()


def _writes_no_tensor(schema: Schema) -> bool:
    """Returns whether an output is never a tensor, such as a sequence, which Cast cannot read."""
    return any(not any(kind.startswith("tensor(") for kind in out.types) for out in schema.outputs)


def _by_variable(ends: Iterable[tuple[Value, Param]]) -> Mapping[str, list[Value]]:
    """Returns the values of each type variable."""
    by_variable: dict[str, list[Value]] = {}
    for value, param in ends:
        by_variable.setdefault(param.variable, []).append(value)
    return by_variable
