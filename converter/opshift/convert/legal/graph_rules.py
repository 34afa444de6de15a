# SPDX-License-Identifier: Apache-2.0
"""The rules on single graphs and nodes: names, order, schemas and fields."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from functools import partial

from opshift.author.fit import UnfitInput, faults, repeated, unfit, unfit_types
from opshift.author.traits import Carries
from opshift.convert.legal.findings import Checked, NamedText
from opshift.model import input_defaults, walk
from opshift.model.cycles import cycles
from opshift.model.scope import Scope
from opshift.model.walk import named
from opshift.opsets import late_changes, schemas
from opshift.opsets.elements import OLDEST
from opshift.protos import AttributeProto, GraphProto, NodeProto
from opshift.text import counted, suggestion

MOST_SHOWN = 12  # values of a cycle in a message

# -- names and order ---------------------------------------------------------------------------


def definitions(checked: Checked) -> Iterator[str]:
    """Checks that each name is defined once, before its first use, and that outputs are written."""
    for scope in checked.document.scopes():
        yield from _definitions(scope)


def _definitions(scope: Scope) -> Iterator[str]:
    proto = scope.proto
    where = f"in graph {proto.name!r}"
    inputs = [i if isinstance(i, str) else i.name for i in proto.input]
    yield from (f"input {name!r} {where} is declared twice" for name in repeated(inputs))
    defined = set(inputs)
    if isinstance(proto, GraphProto):
        tensors = [t.name for t in proto.initializer]
        tensors += [s.values.name for s in proto.sparse_initializer]
        yield from (f"initializer {name!r} {where} occurs twice" for name in repeated(tensors))
        defined.update(tensors)
    circles: dict[str, set[str]] | None = None
    for node in proto.node:
        for name in node.input:
            if (
                not name
                or name in defined
                or (name not in scope.producers and _is_outer(scope, name))
            ):
                continue
            if circles is None:
                circles = _circles(scope)
            yield from _unread(scope, node, name, circles)
        for name in filter(None, node.output):
            if name in defined:
                yield f"{named(node)} writes {name!r} {where}, which has been defined before"
            defined.add(name)
    for output in proto.output:
        name = output if isinstance(output, str) else output.name
        if name not in defined and not _is_outer(scope, name):
            yield f"no node writes output {name!r} {where}"


def sparse_names(checked: Checked) -> Iterator[str]:
    """Checks that no sparse initializer has the name of a dense one; onnx may not check this."""
    for scope in checked.document.scopes():
        for name in sorted(scope.sparse & scope.initializers.keys()):
            yield f"initializer {name!r} in graph {scope.proto.name!r} occurs twice"


def defaults(checked: Checked) -> Iterator[str]:
    """Checks that an initializer has the type of the input for which it is the default."""
    for scope in checked.document.scopes():
        if isinstance(scope.proto, GraphProto):
            yield from input_defaults.unfit(scope.proto)


def _defined(scope: Scope) -> set[str]:
    return {*scope.inputs, *scope.initializers, *scope.sparse, *scope.producers}


def _is_outer(scope: Scope, name: str) -> bool:
    """Returns whether an outer graph defines a name."""
    return scope.parent is not None and scope.parent.owner(name) is not None


def _unread(
    scope: Scope, node: NodeProto, name: str, circles: dict[str, set[str]]
) -> Iterator[str]:
    """Yields why a name is read before its definition: a cycle, a wrong order, or no definition.

    Each cycle is reported once, because its values are then removed from `circles`.
    """
    if name not in scope.producers:
        yield f"{named(node)} reads {name!r}, which is not defined"
    elif (circle := circles.get(name)) is None:
        writer = scope.node(scope.producers[name])
        yield f"{named(node)} comes before {named(writer)}, whose {name!r} it reads; sort the nodes"
    elif circle:
        yield f"the graph has a cycle: {' -> '.join(_shown(_way_back(scope, name, circle)))}"
        circle.clear()


def _circles(scope: Scope) -> dict[str, set[str]]:
    """Maps each value on a cycle to all values of its cycle."""
    reads = {name: scope.node(at).input for name, at in scope.producers.items()}
    return {name: circle for circle in cycles(reads) for name in circle}


def _way_back(scope: Scope, name: str, circle: set[str]) -> list[str]:
    """Returns the values on a shortest path from `name` back to itself."""
    came_from: dict[str, str] = {}
    waiting = deque([name])
    while name not in came_from:
        value = waiting.popleft()
        for source in scope.node(scope.producers[value]).input:
            if source in circle and source not in came_from:
                came_from[source] = value
                waiting.append(source)
    cycle = [name, came_from[name]]
    while cycle[-1] != name:
        cycle.append(came_from[cycle[-1]])
    return cycle


def _shown(cycle: list[str]) -> list[str]:
    """Returns a path for a message; a long path is shortened in the middle."""
    half = MOST_SHOWN // 2
    return cycle if len(cycle) <= MOST_SHOWN else [*cycle[:half], "...", *cycle[-half:]]


def shadowing(checked: Checked) -> Iterator[NamedText]:
    """Checks that a subgraph does not redefine a name of an outer graph.

    A conversion may copy a subgraph under another name, which does not make it another fault.
    """
    for scope in checked.document.scopes():
        if scope.parent is None or not isinstance(scope.proto, GraphProto):
            continue
        for name in sorted(_defined(scope)):
            if scope.parent.owner(name) is not None:
                where = f"in graph {scope.proto.name!r}"
                text = f"{name!r} {where} is also defined in an outer graph; rename one"
                yield name, text


def subgraph_defaults(checked: Checked) -> Iterator[NamedText]:
    """Yields inputs of subgraphs that have a default, which only IR 3 allows, after all others."""
    has_constants = checked.document.model.ir_version <= OLDEST
    for scope in checked.document.scopes():
        if scope.parent is None or not isinstance(scope.proto, GraphProto):
            continue
        constants = scope.initializers.keys() | scope.sparse
        inputs = [value.name for value in scope.proto.input]
        if has_constants:
            while inputs and inputs[-1] in constants:
                inputs.pop()
        where = f"input {{!r}} of the nested graph {scope.proto.name!r} is also an initializer"
        advice = "move it behind the other inputs" if has_constants else "remove one of the two"
        for name in (name for name in inputs if name in constants):
            yield name, f"{where.format(name)}; {advice}"


# -- nodes -------------------------------------------------------------------------------------


def untyped_attributes(checked: Checked) -> Iterator[str]:
    """Yields attributes without a type, although the IR version requires one."""
    for node in (node for scope in checked.document.scopes() for node in scope.proto.node):
        for attribute in node.attribute:
            if attribute.type == AttributeProto.UNDEFINED:
                yield (
                    f"attribute {attribute.name!r} of {named(node)} has no type, which every IR"
                    " version from 2 on requires"
                )


def operators(checked: Checked) -> Iterator[str]:
    """Yields nodes whose operator is unknown in the imported version, or breaks its schema."""
    for root, (domain, op), places in checked.document.operators():
        version = root.imports.get(domain)
        if version is None or domain not in schemas.known_domains():
            continue
        schema = schemas.schema(domain, op, version)
        if schema is None and checked.adapters.retired(domain, op):
            continue
        unknown = _unknown(domain, op, version) if schema is None else ""
        for node in (scope.node(position) for scope, position in places):
            if schema is None:
                yield f"{named(node)}: {unknown}"
            else:
                yield from unfit(node, schema, version, is_inner=root.function is not None)


def input_types(checked: Checked) -> Iterator[str]:
    """Yields nodes that read values of types that their operator does not accept."""
    fixed = dict(_fixed(checked))

    def type_in(scope: Scope, name: str) -> str | None:
        return _type_in(checked, scope, name) or fixed.get((scope.owner(name), name))

    for scope in checked.document.scopes():
        for node in scope.proto.node:
            if (schema := scope.root.schema_of(node)) is not None:
                for misfit in unfit_types(node, schema, partial(type_in, scope)):
                    yield f"{named(node)} {misfit}{_accepted_before(schema, misfit)}"


def vendor_nodes(checked: Checked) -> Iterator[str]:
    """Yields nodes that contradict the description of their operator in a vendor's database."""
    for scope in checked.document.scopes():
        for node in scope.proto.node:
            schema = scope.root.layout_of(node)
            if schema is not None and schema.open and not checked.document.is_call(node):
                yield from faults(node, schema, partial(_type_in, checked, scope))


def _type_in(checked: Checked, scope: Scope, name: str) -> str | None:
    assert checked.facts is not None, "the rule needs the types of values"
    return schemas.type_name(checked.facts.type(scope, name))


def _fixed(checked: Checked) -> Iterator[tuple[tuple[Scope | None, str], str]]:
    """Yields the types that an operator prescribes for inputs of its subgraph, with their names."""
    rules = checked.adapters.rules(Carries)
    for scope in checked.document.scopes():
        for node in scope.proto.node:
            rule = rules.get((schemas.normal(node.domain), node.op_type))
            body = dict(walk.graphs_of(node)).get(rule.graph) if rule is not None else None
            if rule is not None and body is not None:
                inside = scope.root.scope_of(body)
                for value, kind in zip(body.input, rule.fixed, strict=False):
                    yield (inside, value.name), kind


def _accepted_before(schema: schemas.Schema, misfit: UnfitInput) -> str:
    """Returns the end of a message if a release of onnx removed this type from the operator."""
    if misfit.other is not None:
        return ""
    operator = schema.domain, schema.name, schema.since
    release = late_changes.lost(*operator, misfit.position, misfit.kind)
    if release is None:
        return ""
    return (
        f"; onnx {release} removed this type from {schema.name}-{schema.since}, which earlier"
        " releases accept"
    )


def unstated(checked: Checked) -> Iterator[str]:
    """Yields operators whose nodes are not checked, because only the operator's name is known."""
    nodes: Counter[tuple[str, str]] = Counter()
    for root, (domain, op), places in checked.document.operators():
        schema = schemas.schema(domain, op, root.imports.get(domain) or 0)
        if schema is not None and not schema.stated:
            nodes[domain, op] += len(places)
    for (domain, op), count in sorted(nodes.items()):
        yield (
            f"{counted(count, 'node')} of {domain}.{op} cannot be checked, because the document of"
            " the operator set does not state inputs, outputs, types and attributes"
        )


def _unknown(domain: str, op: str, version: int) -> str:
    shown = domain or "ai.onnx"
    later = schemas.history(domain, op)
    if later:
        since = f"it first appears in {shown} {later[0].since}"
        return f"{since}, but the model imports {shown} {version}"
    near = suggestion(op, list(schemas.operators(domain)), 1)
    return f"no operator of that name exists in {shown} {version}{near}"
