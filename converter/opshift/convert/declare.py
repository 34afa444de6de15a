# SPDX-License-Identifier: Apache-2.0
"""Declarations for values that inference does not type, because their operators are too old."""

from __future__ import annotations

from collections.abc import Iterator

from opshift.author.facts import Facts
from opshift.model.document import Document
from opshift.model.scope import Scope
from opshift.opsets import schemas
from opshift.protos import GraphProto, TypeProto


def untyped(document: Document, facts: Facts) -> None:
    """Declares the types that are known of the outputs of operators without inference.

    Runtimes and strict inference need the type of each value, and go on from a declared one.
    """
    for root in document.roots:
        for scope in root.scopes if root.kind == "graph" else ():
            for name, kind in list(_known(scope, facts)):
                scope.proto.value_info.add(name=name).type.CopyFrom(kind)


def _known(scope: Scope, facts: Facts) -> Iterator[tuple[str, TypeProto]]:
    proto = scope.proto
    if not isinstance(proto, GraphProto):
        return
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
                known = TypeProto()
                known.CopyFrom(kind)
                if facts.is_assumed(scope, name):
                    known.tensor_type.ClearField("shape")
                yield name, known
