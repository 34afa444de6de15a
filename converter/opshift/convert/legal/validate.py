# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a model before it is converted, in sentences that name the thing."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from opshift.author.registry import Registry
from opshift.author.traits import Illegal
from opshift.convert.legal import checker
from opshift.errors import InvalidModel
from opshift.model import functions
from opshift.model.bytes.external import location_of, require_inside
from opshift.model.document import Document
from opshift.model.scope import FunctionId, Root, Scope
from opshift.model.walk import nodes_in, tensors
from opshift.opsets import schemas
from opshift.protos import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto

_OF_OPERATORS = ("deprecated", "No Op registered")
_REFERENCE = b"\xaa\x01"  # how the field ref_attr_name is written


def references(model: ModelProto, data: bytes) -> None:
    """Refuses attributes that refer to those of a function where there is none around them."""
    if _REFERENCE not in data:
        return
    for node in nodes_in(model.graph):
        for attribute in node.attribute:
            if attribute.ref_attr_name:
                raise InvalidModel(
                    f"{_called(node)}: attribute {attribute.name!r} refers to one of a"
                    " function, and there is none around it"
                )


def header(model: ModelProto) -> None:
    """Refuses what cannot even be opened."""
    if not model.HasField("graph"):
        raise InvalidModel("the model has no graph; is it an ONNX model?")
    if not model.opset_import:
        raise InvalidModel("the model imports no operator set; add an opset_import")
    if not all(function.name for function in model.functions):
        raise InvalidModel("a function of the model has no name")
    functions.require_bounded(model)


def known_versions(domain: str, present: list[int]) -> None:
    """Refuses to convert from a version that nobody has described."""
    for version in present:
        if (told := _unknown_version(domain, version)) is not None:
            raise InvalidModel(f"the model imports {told}")


def _unknown_version(domain: str, version: int) -> str | None:
    """What is wrong with an import of a version that no release has."""
    newest = schemas.latest(domain)
    if newest is None or 1 <= version <= newest:
        return None
    return (
        f"{domain or 'ai.onnx'} {version}, and 1 to {newest} are known; correct the import, or"
        " install the onnx that brings it"
    )


def _imports(document: Document) -> Iterator[str]:
    """Imports of versions that no release has."""
    for root in document.roots:
        for domain in root.imports if root.kind != "training" else ():
            if (told := _unknown_version(domain, root.imports[domain])) is not None:
                yield f"{_owner(root)} imports {told}"


def external_data(model: ModelProto) -> None:
    """Refuses data files elsewhere, also where nobody reads them during the conversion."""
    for tensor in tensors(model):
        if tensor.data_location == TensorProto.EXTERNAL:
            require_inside(location_of(tensor), tensor.name)


def whole(document: Document, adapters: Registry, error: str | None) -> None:
    """Refuses a model that breaks the rules of its own versions; `error` is the checker's."""
    for message in _unimported(document):
        raise InvalidModel(message)
    for message in (*_illegal(document, adapters), *_recursive(document)):
        raise InvalidModel(message)
    if error is None and not document.model.training_info:  # which the checker does not look at
        return
    for message in findings(document, adapters):
        raise InvalidModel(message)
    if error is not None and not tolerated(document, adapters, error):
        raise InvalidModel(f"the model is not valid as it is: {error}")
    for node, message in checker.training(document):
        if not tolerated(document, adapters, message):
            raise InvalidModel(f"{_called(node)}: {message}")


def tolerated(document: Document, adapters: Registry, error: str) -> bool:
    """Whether the checker objects to an operator that conversion knows, and to nothing else."""
    if not any(words in error for words in _OF_OPERATORS):
        return False
    for root in document.roots:
        for domain, op in root.index:
            version = root.imports.get(domain)
            schema = schemas.schema(domain, op, version) if version else None
            if schema is not None and schema.deprecated:
                return True
            if schema is None and adapters.retired(domain, op):
                return True
    return False


def findings(document: Document, adapters: Registry) -> Iterator[str]:
    """Everything that breaks a rule, most basic first."""
    yield from _imports(document)
    yield from _unimported(document)
    yield from _illegal(document, adapters)
    yield from _recursive(document)
    for root in document.roots:
        for scope in root.scopes:
            yield from _names(scope)
    for root in document.roots:
        for (domain, op), places in sorted(root.index.items()):
            for scope, position in places:
                yield from _node(root, scope.node(position), domain, op, adapters)


def _unimported(document: Document) -> Iterator[str]:
    for root in document.roots:
        for (domain, op), places in sorted(root.index.items()):
            if domain not in root.imports:
                scope, position = places[0]
                yield (
                    f"{_called(scope.node(position))} is of domain {domain or 'ai.onnx'!r}, which"
                    f" {_owner(root)} does not import; add an opset_import for it"
                )
            elif op == "":
                yield f"a node of {root.name} has no op_type"


def _recursive(document: Document) -> Iterator[str]:
    """Functions that come back to themselves; the checker looks for them from IR 8 on only."""
    calls = {root.function: set(root.calls) for root in document.roots if root.function}
    for start in sorted(calls):
        reached, waiting = set[FunctionId](), [start]
        while waiting:
            new = calls.get(waiting.pop(), set()) - reached
            reached |= new
            waiting += new
        if start in reached:
            yield f"function {start[1]!r} of {start[0]!r} calls itself"


def _illegal(document: Document, adapters: Registry) -> Iterator[str]:
    """What an author of adapters has to say about attributes, before inference sees them."""
    illegal = adapters.traits(Illegal)
    for root in document.roots:
        for key in sorted(root.index.keys() & illegal.keys()):
            for scope, position in root.index[key]:
                node = scope.node(position)
                for rule in illegal[key]:
                    objection = rule.against(node)
                    if objection is not None:
                        yield f"{_called(node)}: {objection}"


def _owner(root: Root) -> str:
    return "the model" if root.kind != "function" else root.name


def _called(node: NodeProto) -> str:
    return f"{node.op_type} {node.name or next((o for o in node.output if o), '')!r}"


# -- names and order ---------------------------------------------------------------------------


def _names(scope: Scope) -> Iterator[str]:
    """Single assignment, order, and outputs that somebody writes."""
    proto = scope.proto
    where = f"in graph {proto.name!r}"
    inputs = [i if isinstance(i, str) else i.name for i in proto.input]
    yield from (f"input {name!r} {where} is declared twice" for name in _repeated(inputs))
    seen = set(inputs)
    if isinstance(proto, GraphProto):
        tensors = [t.name for t in proto.initializer]
        tensors += [s.values.name for s in proto.sparse_initializer]
        yield from (f"initializer {name!r} {where} occurs twice" for name in _repeated(tensors))
        seen.update(tensors)
    outer = {n for s in scope.chain() if s is not scope for n in _defined(s)}
    for node in proto.node:
        for name in node.input:
            if name and name not in seen and name not in outer:
                yield _unread(scope, node, name)
        for name in filter(None, node.output):
            if name in seen:
                yield f"{_called(node)} writes {name!r} {where}, which has been defined before"
            seen.add(name)
    for output in proto.output:
        name = output if isinstance(output, str) else output.name
        if name not in seen and name not in outer:
            yield f"output {name!r} {where} is written by no node"


def _defined(scope: Scope) -> set[str]:
    return {*scope.inputs, *scope.initializers, *scope.sparse, *scope.producers}


def _repeated(names: list[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})


def _unread(scope: Scope, node: NodeProto, name: str) -> str:
    """Why a name is not there yet: a cycle, a wrong order, or nobody writes it."""
    if name not in scope.producers:
        return f"{_called(node)} reads {name!r}, which nothing defines"
    cycle = _cycle(scope, name)
    if cycle:
        return f"the graph has a cycle: {' -> '.join(cycle)}"
    writer = scope.node(scope.producers[name])
    return (
        f"{_called(node)} comes before {_called(writer)}, whose {name!r} it reads; sort the nodes"
    )


def _cycle(scope: Scope, name: str) -> list[str]:
    """The values on a way from `name` back to itself, empty when there is none."""
    came_from: dict[str, str] = {}
    waiting = [name]
    while waiting:
        value = waiting.pop()
        for source in scope.node(scope.producers[value]).input:
            if source == name:
                way = [name, value]
                while way[-1] != name:
                    way.append(came_from[way[-1]])
                return way
            if source in scope.producers and source not in came_from:
                came_from[source] = value
                waiting.append(source)
    return []


# -- nodes -------------------------------------------------------------------------------------


def _node(root: Root, node: NodeProto, domain: str, op: str, adapters: Registry) -> Iterator[str]:
    version = root.imports.get(domain)
    if version is None or domain not in schemas.known_domains():
        return
    shown = domain or "ai.onnx"
    schema = schemas.schema(domain, op, version)
    if schema is None:
        if not adapters.retired(domain, op):
            yield f"{_called(node)}: {_unknown(domain, op, shown, version)}"
        return
    for attribute in node.attribute:
        known = schema.attributes.get(attribute.name)
        if known is None:
            yield f"{_called(node)}: {op}-{schema.since} has no attribute {attribute.name!r}"
        elif attribute.type != known.kind and root.function is None:
            given, wanted = (
                AttributeProto.AttributeType.Name(k) for k in (attribute.type, known.kind)
            )
            yield f"{_called(node)}: attribute {attribute.name!r} is {given}, not {wanted}"
    present = {a.name for a in node.attribute}
    for known in schema.attributes.values():
        if known.required and known.name not in present:
            yield f"{_called(node)}: attribute {known.name!r} is missing"
    yield from _arity(node, schema, version)


def _arity(node: NodeProto, schema: schemas.Schema, version: int) -> Iterator[str]:
    for what, count, low, high in (
        ("inputs", len(node.input), schema.min_input, schema.max_input),
        ("outputs", len(node.output), schema.min_output, schema.max_output),
    ):
        if count < low or 0 <= high < count:
            allowed = f"at least {low}" if high < 0 else f"{low} to {high}"
            yield f"{_called(node)} has {count} {what}; at opset {version} it has {allowed}"


def _unknown(domain: str, op: str, shown: str, version: int) -> str:
    later = schemas.history(domain, op)
    if later:
        since = f"it first appears in {shown} {later[0].since}"
        return f"{since}, and the model imports {shown} {version}"
    near = difflib.get_close_matches(op, list(schemas.operators(domain)), n=1)
    guess = f"; did you mean {near[0]}?" if near else ""
    return f"no operator of that name exists in {shown} {version}{guess}"
