# SPDX-License-Identifier: Apache-2.0
"""Declares types that inference cannot find for old operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from opshift.author import inference
from opshift.author.facts import Facts
from opshift.author.registry import Registry
from opshift.author.traits import OutputRanks
from opshift.model.scope import Scope
from opshift.opsets import schemas
from opshift.opsets.types import rank_of, without_lengths, without_symbols
from opshift.protos import GraphProto, NodeProto, TypeProto

AXES_MAY_BE_NEGATIVE = 11
"""The opset that introduced negative axes. Below it, only the rank identifies the last axis."""
LENGTHS = frozenset(("tensor(int64)",))
NO_INFERENCE = -1


def untyped(facts: Facts) -> None:
    """Declares the known types of the outputs of operators without inference.

    Runtimes and strict inference need the type of each value, and accept a declared type.
    """
    for root in facts.document.roots:
        for scope in root.scopes if root.kind == "graph" else ():
            for name, kind in list(_known(scope, facts)):
                scope.proto.value_info.add(name=name).type.CopyFrom(kind)


def _known(scope: Scope, facts: Facts) -> Iterator[tuple[str, TypeProto]]:
    proto = scope.proto
    assert isinstance(proto, GraphProto)
    declared = {value.name for value in (*proto.output, *proto.value_info)}
    for i, node in enumerate(proto.node):
        schema = None if i in scope.removed else scope.root.schema_of(node)
        if schema is None:
            continue
        raw = schemas.raw(schema.domain, schema.name, schema.since)
        if raw.has_type_and_shape_inference_function:
            continue
        for name in node.output:
            kind = facts.type(scope, name) if name and name not in declared else None
            if kind is not None and schemas.type_name(kind) is not None:
                inferred_type = without_symbols(kind)
                if facts.is_unconfirmed(scope, name):
                    inferred_type.tensor_type.ClearField("shape")
                yield name, inferred_type


def ranks(
    graph: GraphProto,
    version: int,
    adapters: Registry,
    confirmed: Callable[[str], TypeProto | None],
) -> None:
    """Declares ranks that inference finds only in the source model.

    Runtimes fuse normalizations only if the last axis is known. `confirmed` returns the type of a
    source value if inference finds its rank without declarations.
    """
    if not inference.LOWEST <= version < AXES_MAY_BE_NEGATIVE:
        return
    lost = list(_without_rank(graph, version, adapters))
    stated = {info.name for info in (*graph.output, *graph.value_info)} if lost else set[str]()
    for name in lost:
        kind = confirmed(name) if name not in stated else None
        if kind is not None and kind.tensor_type.elem_type and rank_of(kind) is not None:
            graph.value_info.add(name=name).type.CopyFrom(without_lengths(kind))


def _without_rank(graph: GraphProto, version: int, adapters: Registry) -> Iterator[str]:
    """Yields outputs whose rank inference cannot find, even if all input types are known."""
    constants = {""} | {tensor.name for tensor in graph.initializer}
    positions: dict[str, int | None] = {}
    for node in graph.node:
        if schemas.normal(node.domain):
            continue
        if node.op_type == "Constant":
            constants.update(node.output)
        if node.op_type not in positions:
            positions[node.op_type] = _needed(node.op_type, version, adapters)
        at = positions[node.op_type]
        if at == NO_INFERENCE or (at is not None and _input(node, at) not in constants):
            yield from filter(None, node.output)


def _needed(op: str, version: int, adapters: Registry) -> int | None:
    """Returns the index of the input that determines the rank, or NO_INFERENCE."""
    schema = schemas.schema("", op, version)
    if schema is None:
        return None
    raw = schemas.raw("", schema.name, schema.since)
    if not raw.has_type_and_shape_inference_function:
        return NO_INFERENCE
    ruled = ("", op) in adapters.rules(OutputRanks)
    return len(schema.inputs) - 1 if ruled and schema.inputs[-1].types == LENGTHS else None


def _input(node: NodeProto, at: int) -> str:
    return node.input[at] if at < len(node.input) else ""
