# SPDX-License-Identifier: Apache-2.0
"""Edits the imports of a model: merges repeated ones, removes unused ones, finds unknown ones."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from opshift.codes.refusals import Why
from opshift.errors import RefusedNode
from opshift.model.document import Document
from opshift.model.functions import functions_of
from opshift.model.scope import Imports, Root, call_id
from opshift.model.walk import Container, name_of, nodes, nodes_in
from opshift.opsets import schemas
from opshift.protos import FunctionProto, ModelProto, NodeProto

Versions = Mapping[str, int]


def owners(model: ModelProto) -> list[ModelProto | FunctionProto]:
    """Returns the model and its functions, each of which has imports."""
    return [model, *model.functions]


def versions(owner: ModelProto | FunctionProto) -> dict[str, int]:
    """Returns the version of each domain that a model or a function imports."""
    return {schemas.normal(entry.domain): entry.version for entry in owner.opset_import}


def bodies(model: ModelProto) -> Iterator[tuple[Container, Versions]]:
    """Yields the main graph and the functions, each with the versions that apply to it."""
    yield model.graph, versions(model)
    yield from ((function, versions(function)) for function in model.functions)


def operators(model: ModelProto) -> Iterator[tuple[NodeProto, Versions]]:
    """Yields each node that calls no function of the model, with the versions that apply to it."""
    functions = functions_of(model)
    for body, imported in bodies(model):
        yield from ((node, imported) for node in nodes_in(body) if call_id(node) not in functions)


def merge(model: ModelProto) -> list[str]:
    """Merges repeated imports of a domain; `ai.onnx` and '' are the same domain."""
    merged = [name for where in owners(model) if (name := _merge(where, model)) is not None]
    return [f"{name or 'ai.onnx'} was imported twice; one import was removed" for name in merged]


def _merge(container: ModelProto | FunctionProto, model: ModelProto) -> str | None:
    imported: dict[str, int] = {}
    for entry in container.opset_import:
        imported.setdefault(schemas.normal(entry.domain), entry.version)
    if len(imported) == len(container.opset_import):
        return None
    Imports(container.opset_import, "the model")  # raises if the versions differ
    names = [schemas.normal(entry.domain) for entry in container.opset_import]
    twice = next(name for name in imported if names.count(name) > 1)
    del container.opset_import[:]
    for domain, version in imported.items():
        container.opset_import.add(domain=domain, version=version)
    for node in nodes(model):  # the checker compares the spelling of domains
        if node.domain == "ai.onnx":
            node.domain = ""
    return twice


def prune(document: Document, allowed: Collection[str] = ()) -> list[str]:
    """Removes the imports that no node needs, in the model and in its functions.

    Imports of the domains in `allowed` stay.
    """
    used = {domain for root in document.roots for domain in _used(root)}
    used |= {domain for domain, _, _ in document.functions}
    notes = _prune(document.model, document.imports, used.union(allowed))
    for root in document.roots:
        if root.function is not None:
            needed = _used(root).union(allowed)
            _prune(document.functions[root.function], root.imports, needed)
    return notes


def _prune(container: ModelProto | FunctionProto, imports: Imports, used: set[str]) -> list[str]:
    if not used:
        return []  # a model must import at least one domain
    unused = [(domain, imports[domain]) for domain in imports if domain not in used]
    for domain, _ in unused:
        for entry in imports.remove(domain):
            container.opset_import.remove(entry)
    names = [f"{domain or 'ai.onnx'} {version}" for domain, version in unused]
    plural = "s" if len(names) > 1 else ""
    return [f"removed the unused import{plural} {', '.join(names)}"] if names else []


def unknown(document: Document) -> list[RefusedNode]:
    """Returns a refusal for every node of a domain that no installed package describes."""
    refusals = []
    for root in document.roots:
        for (domain, op), places in sorted(root.index.items()):
            if domain not in schemas.known_domains():
                version = root.imports.get(domain) or 0
                for scope, position in places:
                    node = scope.node(position)
                    why = Why.UNKNOWN_DOMAIN
                    said = f"no installed package describes domain {domain!r}"
                    boundary = (version, version)
                    refusals.append(RefusedNode(name_of(node), op, domain, boundary, why, said))
    return refusals


def _used(root: Root) -> set[str]:
    return {key[0] for key in root.index} | {key[0] for key in root.calls}
