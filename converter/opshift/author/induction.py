# SPDX-License-Identifier: Apache-2.0
"""Infers the types of loop-carried values: a type is right if one iteration preserves it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from opshift.author.scope_types import GraphTypes, by_graph
from opshift.author.traits import Carries
from opshift.model.walk import graphs_in, graphs_of
from opshift.opsets import schemas
from opshift.opsets.types import rank_of, without_dims
from opshift.protos import GraphProto, ModelProto, TypeProto, ValueInfoProto
from opshift.protos.copies import copy_of

Rules: TypeAlias = Mapping[tuple[str, str], Carries]
Found: TypeAlias = "tuple[list[GraphTypes], ModelProto | None]"
Infer: TypeAlias = Callable[[ModelProto], Found]
ROUNDS = 6  # each round removes wrong parts of the assumed types; then a type stays unknown


class _Declared:
    """The declared types of a graph's values by name, collected once for all its nodes."""

    def __init__(self, graph: GraphProto) -> None:
        self.graph = graph
        self.infos: dict[str, list[ValueInfoProto]] = {}
        for info in (*graph.output, *graph.value_info):
            self.infos.setdefault(info.name, []).append(info)

    def of(self, name: str, *, add: bool) -> list[ValueInfoProto]:
        """Returns a value's declared types; with `add`, adds an empty type if there is none."""
        infos = self.infos.get(name, [])
        if add and name and not infos:
            infos = self.infos[name] = [self.graph.value_info.add(name=name)]
        return infos


class Carried(NamedTuple):
    """A value that a loop passes from one iteration to the next."""

    given: str  # the initial value, an input of the node
    inside: ValueInfoProto  # the input of the body
    result: str  # the output of the body
    around: _Declared
    numbers: tuple[int, int]  # the numbers of the outer graph and of the body in the model
    output: str  # the output of the node; empty if it is unread


def confirm(
    model: ModelProto, infer: Infer, rules: Rules, original: ModelProto, *, nested: bool = True
) -> Found:
    """Runs inference, and adds types of loop-carried values that induction proves.

    The first assumption is that a value has its declared type; one run of inference confirms this
    for any number of loops. If the declared type is wrong, the second assumption is that the value
    keeps its initial type. If a body returns another type, the dimensions that differ become
    unknown.
    """
    carried = list(_carried(model, rules)) if nested else []
    if carried and (confirmed := _confirmed(model, infer, carried, _carried(original, rules))):
        return confirmed
    symbols = symbols_of(model)
    assumed: dict[int, TypeProto] = {}
    given_up: set[int] = set()
    for _ in range(ROUNDS if carried else 0):
        types, inferred = infer(model)
        if inferred is None:
            break
        scopes = by_graph(inferred, initializers=True)
        settled = True
        for i, value in enumerate(carried):
            if i in given_up:
                continue
            initial, result = _types(value, scopes)
            weaker = _weaker(initial, result, assumed.get(i), symbols)
            if weaker == assumed.get(i):
                continue
            settled = False
            _write(value, weaker)
            if weaker is None:
                given_up.add(i)
                del assumed[i]
            else:
                assumed[i] = weaker
        if settled:
            return types, inferred
    for value in carried:
        _write(value, None)
    return infer(model)


def _confirmed(
    model: ModelProto, infer: Infer, carried: Sequence[Carried], declared: Iterable[Carried]
) -> Found | None:
    """Runs inference with the declared types; returns None if it infers other types."""
    symbols = symbols_of(model)
    kinds = [value.inside.type for value in declared]
    assumed = [without_marks(kind, symbols) for kind in kinds if rank_of(kind) is not None]
    if len(assumed) < len(carried):
        return None
    for value, kind in zip(carried, assumed, strict=True):
        _write(value, kind)
    types, inferred = infer(model)
    if inferred is not None:
        scopes = by_graph(inferred, initializers=True)
        pairs = (_types(value, scopes) for value in carried)
        if all(
            initial is not None
            and without_marks(initial, symbols) == kind == _weaker(initial, result, kind, symbols)
            for (initial, result), kind in zip(pairs, assumed, strict=True)
        ):
            return types, inferred
    for value in carried:
        _write(value, None)
    return None


def _carried(model: ModelProto, rules: Rules) -> Iterator[Carried]:
    graphs = list(graphs_in(model.graph))
    numbers = {id(graph): i for i, graph in enumerate(graphs)}
    for number, graph in enumerate(graphs):
        declared: _Declared | None = None
        for node in graph.node:
            rule = rules.get((schemas.normal(node.domain), node.op_type))
            body = dict(graphs_of(node)).get(rule.graph) if rule is not None else None
            if rule is None or body is None:
                continue
            declared = declared or _Declared(graph)
            for i, inside in enumerate(body.input[rule.inputs :]):
                at, to = rule.inputs + i, rule.outputs + i
                if at < len(node.input) and to < len(body.output) and node.input[at]:
                    output = node.output[i] if i < len(node.output) else ""
                    places = (number, numbers[id(body)])
                    result = body.output[to].name
                    yield Carried(node.input[at], inside, result, declared, places, output)


def _types(
    value: Carried, scopes: Sequence[GraphTypes]
) -> tuple[TypeProto | None, TypeProto | None]:
    """Returns the types of the initial value and of the body's output, each in its own graph."""
    around, body = (scopes[number].visible for number in value.numbers)
    return around.get(value.given), body.get(value.result)


def _weaker(
    initial: TypeProto | None,
    result: TypeProto | None,
    assumed: TypeProto | None,
    symbols: frozenset[str],
) -> TypeProto | None:
    """Returns the part of an assumed type that inference confirms, or None."""
    if assumed is None:
        return (
            None if initial is None or rank_of(initial) is None else without_marks(initial, symbols)
        )
    if (
        result is None
        or initial is None
        or not rank_of(initial) == rank_of(result) == rank_of(assumed)
    ):
        return None
    weaker = copy_of(assumed)
    dims = (kind.tensor_type.shape.dim for kind in (initial, result))
    for dim, *other_dims in zip(weaker.tensor_type.shape.dim, *dims, strict=True):
        if dim.WhichOneof("value") and any(other_dim != dim for other_dim in other_dims):
            dim.Clear()
    return weaker


def without_marks(kind: TypeProto, symbols: frozenset[str]) -> TypeProto:
    """Removes symbols that inference generated, because the next inference renames them."""
    return without_dims(kind, lambda dim: bool(dim.dim_param) and dim.dim_param not in symbols)


def symbols_of(model: ModelProto) -> frozenset[str]:
    """Returns the dimension symbols of the model's inputs."""
    shapes = (value.type.tensor_type.shape.dim for value in model.graph.input)
    return frozenset(dim.dim_param for dims in shapes for dim in dims if dim.dim_param)


def _write(carried: Carried, kind: TypeProto | None) -> None:
    """Writes the type of a carried value into body and node output, or removes the shape."""
    for value in (carried.inside, *carried.around.of(carried.output, add=kind is not None)):
        if kind is not None:
            value.type.CopyFrom(kind)
        elif value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
