# SPDX-License-Identifier: Apache-2.0
"""What one adapter wrote, checked where it is to stand: before it enters the model.

The cost follows the change: only names that the replaced node did not read are looked up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from opshift.author.builder import Builder
from opshift.author.inference import infer_node
from opshift.author.node import Env, Node
from opshift.author.verdicts import Adapter
from opshift.author.written import Made
from opshift.errors import AdapterBug
from opshift.model.scope import Place, Root, Scope
from opshift.model.walk import graphs_of, reads
from opshift.opsets import schemas
from opshift.protos import AttributeProto, NodeProto, TypeProto
from opshift.records import dataclass


@dataclass(frozen=True, slots=True)
class WrittenNodes:
    """What an adapter wrote in place of one node at one boundary."""

    place: Place
    node: Node
    op: Builder
    adapter: Adapter
    domain: str
    start: int
    to: int


def check(written: WrittenNodes, given: Collection[str], typed: set[tuple[object, ...]]) -> None:
    """Raises an AdapterBug that names the boundary, the adapter and the node.

    `given` are the names that the engine made for this change; `typed` remembers the kinds of
    changes whose types have been checked in this step.
    """
    for fault in _faults(written, given, typed):
        node = written.node
        boundary = f"{written.domain or 'ai.onnx'} {written.start}->{written.to}"
        where = node.name or next((o for o in node.proto.output if o), "")
        raise AdapterBug(f"at {boundary}, {written.adapter.source} on {node.op} {where!r}: {fault}")


def _faults(
    written: WrittenNodes, given: Collection[str], typed: set[tuple[object, ...]]
) -> Iterator[str]:
    made, root = written.op.made, written.place[0].root
    yield from _values(written.place, written.node.proto, made, given)
    for one in made.nodes:
        domain = schemas.normal(one.domain)
        version = written.to if domain == written.domain else root.imports.get(domain)
        yield from _schema(one, domain, version, root, made.carried)
    yield from _types(written, typed)


# -- values --------------------------------------------------------------------------------------


def _values(place: Place, old: NodeProto, made: Made, given: Collection[str]) -> Iterator[str]:
    """Names in scope, order and single assignment."""
    if not made.nodes:
        return
    scope, _ = place
    readable = {*reads(old), *made.constants, ""}
    inside = {name for _, graph in graphs_of(old) for n in graph.node for name in n.output}
    written: set[str] = set()
    outputs = {name for one in made.nodes for name in one.output}
    for one in made.nodes:
        for name in reads(one):
            if name in readable or name in written:
                continue
            if name in outputs:
                yield f"{one.op_type} reads {name!r} before it is written"
            elif (told := _unreachable(place, name)) is not None:
                yield f"{one.op_type} reads {name!r}, which {told}"
            readable.add(name)
        for name in filter(None, one.output):
            if name in written:
                yield f"{one.op_type} writes {name!r}, which was written before"
            elif name not in old.output and name not in given and name not in inside:
                yield f"{one.op_type} writes {name!r}, which is neither an output nor a new name"
            written.add(name)
    for name in filter(None, old.output):
        if name not in written and scope.root.top is scope and _is_output(scope, name):
            yield f"nothing writes the output {name!r}"


def _is_output(scope: Scope, name: str) -> bool:
    held = scope.proto.output
    return any(name == (one if isinstance(one, str) else one.name) for one in held)


def _unreachable(place: Place, name: str) -> str | None:
    """Why a value cannot be read at a place; None where it can."""
    scope, position = place
    owner = scope.owner(name)
    if owner is None:
        return "nothing defines"
    if owner is not scope or name not in scope.producers:
        return None
    written = scope.producers[name]
    if written == position:
        return "the replaced node wrote"
    keys = [scope.order.get(at) or (at,) for at in (written, position)]
    return None if keys[0] < keys[1] else "is written later"


# -- schemas -------------------------------------------------------------------------------------


def _schema(
    made: NodeProto, domain: str, version: int | None, root: Root, carried: Collection[str]
) -> Iterator[str]:
    """Imports, the schema at the version entered, and the kinds of attributes."""
    if version is None:
        yield f"{made.op_type} is of domain {domain!r}, which {root.name} does not import"
        return
    schema = schemas.schema(domain, made.op_type, version)
    if schema is None:
        if domain in schemas.known_domains():
            yield f"{made.op_type} does not exist at {domain or 'ai.onnx'} {version}"
        return
    for what, count, low, high in (
        ("inputs", len(made.input), schema.min_input, schema.max_input),
        ("outputs", len(made.output), schema.min_output, schema.max_output),
    ):
        if count < low or 0 <= high < count:
            yield f"{made.op_type} has {count} {what}, and {version} takes {low} to {high}"
    for attribute in made.attribute:
        known = schema.attributes.get(attribute.name)
        if known is None:
            yield f"{made.op_type}-{schema.since} has no attribute {attribute.name!r}"
        elif attribute.type != known.kind:
            kinds = [AttributeProto.AttributeType.Name(k) for k in (attribute.type, known.kind)]
            yield f"attribute {attribute.name!r} of {made.op_type} is {kinds[0]}, not {kinds[1]}"
    present = {attribute.name for attribute in made.attribute}.union(carried)
    for known in schema.attributes.values():
        if known.required and known.name not in present:
            yield f"{made.op_type} lacks the attribute {known.name!r}"


# -- types ---------------------------------------------------------------------------------------


def _types(written: WrittenNodes, typed: set[tuple[object, ...]]) -> Iterator[str]:
    """An output keeps the element type that is declared; once for each kind of change."""
    scope, op = written.place[0], written.op
    for name in filter(None, written.node.proto.output):
        declared = scope.declared.get(name)
        before = schemas.type_name(declared) if declared is not None else None
        ops = tuple([one.op_type for one in op.made.nodes])
        kind = (written.adapter.source, ops, before)
        if before is None or kind in typed or not any(name in one.output for one in op.made.nodes):
            continue
        typed.add(kind)
        after = _name_of(op.env.type(name))
        if after not in (None, before) and _name_of(_before(written).get(name)) == before:
            yield f"{name!r} becomes {after}, and it was {before}"


def _before(written: WrittenNodes) -> dict[str, TypeProto]:
    """The types of the replaced node: what a model declares may be wrong already."""
    return infer_node(written.node.proto, Env(written.op.env.facts, written.place[0]), None)


def _name_of(kind: TypeProto | None) -> str | None:
    return schemas.type_name(kind) if kind is not None else None
