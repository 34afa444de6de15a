# SPDX-License-Identifier: Apache-2.0
"""Finds the domains, operators, element types and functions that a runtime lacks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from opshift import versions
from opshift.author.present_types import collect_present_types
from opshift.convert.legal.model_rules import is_beyond
from opshift.convert.runtime.lack import RuntimeLack, lack_of, since_of
from opshift.model import walk
from opshift.model.document import Document
from opshift.model.scope import Key, Place, Root
from opshift.opsets import layouts, schemas
from opshift.opsets.elements import ELEMENTS
from opshift.opsets.type_pairs import replacements
from opshift.protos import FunctionProto, NodeProto

if TYPE_CHECKING:
    from opshift.opsets.targets import RuntimeRelease


def lacking(document: Document, release: RuntimeRelease) -> list[RuntimeLack]:
    """Returns the domains, operators, element types and functions that a runtime lacks."""
    return [
        *_domains(document, release), *_operators(document, release), *_types(document, release),
        *_added_late(document, release), *_functions(document, release),
    ]  # fmt: skip


def _domains(document: Document, release: RuntimeRelease) -> Iterator[RuntimeLack]:
    for _, (domain, op), places in document.operators():
        if release.lacks(domain):
            says = f"{release.shown} has no domain {domain or 'ai.onnx'}, to which {op} belongs"
            yield lack_of((domain, op), places, says)


def unread(document: Document, release: RuntimeRelease) -> Iterator[tuple[Root, Key, str]]:
    """Yields operators that a runtime does not know in the model's version, with the reason."""
    for root, key, _ in document.operators():
        if says := release.unread(key, since_of(root, key)):
            yield root, key, says
        elif release.is_strange(key):
            yield root, key, f"{release.shown} has no operator {key[0]}.{key[1]}"


def reads(nodes: Iterable[NodeProto], root: Root, release: RuntimeRelease) -> bool:
    """Returns whether a runtime may know the operators of all these nodes."""
    keys = {(schemas.normal(node.domain), node.op_type) for node in nodes}
    return not any(release.unread(key, since_of(root, key)) for key in keys)


def _operators(document: Document, release: RuntimeRelease) -> Iterator[RuntimeLack]:
    for root, key, says in unread(document, release):
        yield lack_of(key, root.index[key], says)
    for (key, says), places in unknown_fields(document, release).items():
        yield lack_of(key, places, f"{release.shown} has no operator {key[0]}.{key[1]} with {says}")


def unknown_fields(
    document: Document, release: RuntimeRelease
) -> dict[tuple[Key, str], list[Place]]:
    """Returns nodes with an attribute, input or output that a runtime does not have."""
    from opshift.opsets import fields

    places_by_field: dict[tuple[Key, str], list[Place]] = {}
    for key, (scope, at), unknown in unread_fields(document, release):
        if (says := fields.given(scope.node(at), unknown)) is not None:
            places_by_field.setdefault((key, says), []).append((scope, at))
    return places_by_field


def unread_fields(
    document: Document, release: RuntimeRelease
) -> Iterator[tuple[Key, Place, Collection[str]]]:
    """Yields the nodes of operators of which a runtime lacks an attribute, input or output."""
    for root, key, places in document.operators():
        unknown, described = release.unknown_fields(key), _described_attributes(root, key, release)
        for scope, at in places:
            lacked = unknown
            if described is not None:
                names = {attribute.name for attribute in scope.node(at).attribute}
                lacked = unknown | (names - described)
            if lacked:
                yield key, (scope, at), lacked


def _described_attributes(root: Root, key: Key, release: RuntimeRelease) -> frozenset[str] | None:
    """Returns the attributes that any measured release has for a vendor's operator, or None.

    None stands for an operator without a description, and for a release that was not measured.
    """
    if not key[0] or key[0] in versions.DOMAINS or key[0] not in release.imports:
        return None
    from opshift.opsets import fields

    table = fields.shipped().get(release.kernels)
    described = layouts.layout(*key, root.imports.get(key[0]) or 1)
    if table is None or described is None or not table.covers(release.release):
        return None
    return frozenset(described.attributes) | table.unknown.get(key, {}).keys()


def _types(document: Document, release: RuntimeRelease) -> Iterator[RuntimeLack]:
    present = collect_present_types(document)
    for name in sorted(present.intersection(release.texts("types"))):
        says = f"{release.shown} has no kernels for {name}"
        yield RuntimeLack(says, types=_accepted_instead(name, release))
    for element in ELEMENTS.values():
        if element.name in present and release.ir is not None and element.ir > release.ir:
            says = f"{release.shown} does not read {element.name}, which IR {element.ir} introduced"
            yield RuntimeLack(says)


def _accepted_instead(kind: str, release: RuntimeRelease) -> str:
    """Returns a change such as `bfloat16=float` to an element type that a runtime has, or ""."""
    fits = [to for to in replacements(kind) if to not in release.texts("types")]
    return f"{kind}={fits[-1]}" if fits else ""


def _added_late(document: Document, release: RuntimeRelease) -> Iterator[RuntimeLack]:
    """Yields nodes of operator versions that onnx added to an opset after the runtime was built."""
    from opshift.opsets import late_changes

    for root, key, places in document.operators() if release.built_on else ():
        since = since_of(root, key)
        added_in = late_changes.added_after(*key, since, release.built_on or "")
        if added_in is None:
            continue
        earlier = [schema for schema in schemas.history(*key) if schema.since < since]
        before = earlier[-1] if earlier else None
        if newer := [(scope, at) for scope, at in places if is_beyond(scope.node(at), before)]:
            has = f"{key[1]}-{before.since}" if before else f"no {key[1]}"
            says = (
                f"{release.shown} has {has} in this opset; onnx {added_in} added {key[1]}-{since}"
            )
            yield lack_of(key, newer, says)


def _functions(document: Document, release: RuntimeRelease) -> Iterator[RuntimeLack]:
    for name, says in unloaded(document.model.functions, release):
        yield RuntimeLack(says, node=name)


def _has_graphs(function: FunctionProto) -> bool:
    return any(map(walk.holds_graphs, function.node))


def _has_unread_inputs(function: FunctionProto) -> bool:
    read = {*function.output, *(name for node in function.node for name in walk.reads(node))}
    return not read.issuperset(function.input)


CONTENTS = {
    "graphs": (_has_graphs, "a node that has a subgraph"),
    "unread inputs": (_has_unread_inputs, "an input that no node reads"),
}


def unloaded(
    functions: Iterable[FunctionProto], release: RuntimeRelease
) -> Iterator[tuple[str, str]]:
    """Yields the name of each function that a runtime does not load, with the reason."""
    for function in functions:
        for name in release.texts("not_in_functions"):
            has, shown = CONTENTS[name]
            if has(function):
                yield function.name, f"{release.shown} cannot load a function with {shown}"
