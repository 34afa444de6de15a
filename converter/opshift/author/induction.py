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

Rules: TypeAlias = Mapping[tuple[str, str], Carries]
Found: TypeAlias = "tuple[list[GraphTypes], ModelProto | None]"
Infer: TypeAlias = Callable[[ModelProto], Found]
ROUNDS = 6  # each round removes wrong parts of the assumed types; what changes longer stays unknown


class _Declared:
    """The declared types of a graph's values by name, collected once for all its nodes."""

    def __init__(self, graph: GraphProto) -> None:
        self.graph = graph
        self.infos: dict[str, list[ValueInfoProto]] = {}
        for info in (*graph.output, *graph.value_info):
            self.infos.setdefault(info.name, []).append(info)

    def of(self, name: str, *, add: bool) -> list[ValueInfoProto]:
        """Returns a value's declared types; with `add`, adds an empty type if there is none."""
        found = self.infos.get(name, [])
        if add and name and not found:
            found = self.infos[name] = [self.graph.value_info.add(name=name)]
        return found


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
    if carried and (known := _confirmed(model, infer, carried, _carried(original, rules))):
        return known
    symbols = symbols_of(model)
    held: dict[int, TypeProto] = {}
    given_up: set[int] = set()
    for _ in range(ROUNDS if carried else 0):
        told, found = infer(model)
        if found is None:
            break
        scopes = by_graph(found, initializers=True)
        settled = True
        for i, one in enumerate(carried):
            if i in given_up:
                continue
            given, result = _types(one, scopes)
            weaker = _weaker(given, result, held.get(i), symbols)
            if weaker == held.get(i):
                continue
            settled = False
            _write(one, weaker)
            if weaker is None:
                given_up.add(i)
                del held[i]
            else:
                held[i] = weaker
        if settled:
            return told, found
    for one in carried:
        _write(one, None)
    return infer(model)


def _confirmed(
    model: ModelProto, infer: Infer, carried: Sequence[Carried], declared: Iterable[Carried]
) -> Found | None:
    """Runs inference with the declared types; returns None if it infers other types."""
    symbols = symbols_of(model)
    kinds = (one.inside.type for one in declared)
    held = [without_marks(one, symbols) for one in kinds if rank_of(one) is not None]
    if len(held) < len(carried):
        return None
    for one, kind in zip(carried, held, strict=True):
        _write(one, kind)
    told, found = infer(model)
    if found is not None:
        scopes = by_graph(found, initializers=True)
        types = (_types(one, scopes) for one in carried)
        if all(
            given is not None
            and without_marks(given, symbols) == kind == _weaker(given, result, kind, symbols)
            for (given, result), kind in zip(types, held, strict=True)
        ):
            return told, found
    for one in carried:
        _write(one, None)
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


def _types(one: Carried, scopes: Sequence[GraphTypes]) -> tuple[TypeProto | None, TypeProto | None]:
    """Returns the types of the initial value and of the body's output, each in its own graph."""
    around, body = (scopes[number].visible for number in one.numbers)
    return around.get(one.given), body.get(one.result)


def _weaker(
    given: TypeProto | None,
    result: TypeProto | None,
    held: TypeProto | None,
    symbols: frozenset[str],
) -> TypeProto | None:
    """Returns the part of an assumed type that inference confirms; None without such a part."""
    if held is None:
        return None if given is None or rank_of(given) is None else without_marks(given, symbols)
    if result is None or given is None or not rank_of(given) == rank_of(result) == rank_of(held):
        return None
    left = TypeProto()
    left.CopyFrom(held)
    dims = (kind.tensor_type.shape.dim for kind in (given, result))
    for dim, *others in zip(left.tensor_type.shape.dim, *dims, strict=True):
        if dim.WhichOneof("value") and any(other != dim for other in others):
            dim.Clear()
    return left


def without_marks(given: TypeProto, symbols: frozenset[str]) -> TypeProto:
    """Removes symbols that inference generated, because the next inference renames them."""
    return without_dims(given, lambda dim: bool(dim.dim_param) and dim.dim_param not in symbols)


def symbols_of(model: ModelProto) -> frozenset[str]:
    """Returns the dimension symbols of the model's inputs."""
    shapes = (value.type.tensor_type.shape.dim for value in model.graph.input)
    return frozenset(dim.dim_param for dims in shapes for dim in dims if dim.dim_param)


def _write(one: Carried, held: TypeProto | None) -> None:
    """Writes the type of a carried value into body and node output, or removes the shape."""
    for value in (one.inside, *one.around.of(one.output, add=held is not None)):
        if held is not None:
            value.type.CopyFrom(held)
        elif value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
