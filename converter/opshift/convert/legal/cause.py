# SPDX-License-Identifier: Apache-2.0
"""Finds the values of the source model on which a failed conversion of a node depends."""

from __future__ import annotations

from opshift.convert.legal.written_rules import holder
from opshift.model.document import Document
from opshift.model.scope import Place, Scope
from opshift.model.walk import reads
from opshift.protos import NodeProto


def sources(document: Document, place: Place) -> frozenset[str] | None:
    """Returns the names in the source model that a node reads or writes; None in functions.

    For a node that the conversion wrote, the result has the names of the source node that it
    replaced. In training graphs, the result is None too.
    """
    scope, position = place
    if scope.root.kind != "graph":
        return None
    while scope.parent is not None:
        position, scope = holder(scope)
    node = scope.node(position)
    read = _behind(document, scope, [*node.output, *reads(node)])
    return frozenset(name for name in read | _before(document, scope, node) if name)


def _behind(document: Document, scope: Scope, names: list[str]) -> set[str]:
    """Returns names of the source model from which the values of `names` are computed."""
    found, seen = set[str](), set[str]()
    while names:
        name = names.pop()
        if not document.is_fresh(name):
            found.add(name)
        elif name not in seen and (at := scope.producers.get(name)) is not None:
            seen.add(name)
            names += reads(scope.node(at))
    return found


def _before(document: Document, scope: Scope, node: NodeProto) -> set[str]:
    """Returns the source model's names that the node writes, directly or through new nodes."""
    found, fresh = set[str](), set(filter(document.is_fresh, node.output))
    for position in scope.sorted_positions():
        one = scope.node(position)
        if one is node or not fresh.isdisjoint(reads(one)):
            found.update(name for name in one.output if not document.is_fresh(name))
            fresh.update(filter(document.is_fresh, one.output))
    return found
