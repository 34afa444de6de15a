# SPDX-License-Identifier: Apache-2.0
"""Decides whether a runtime can run nodes that a step may write."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from opshift.author.builder import Builder
from opshift.author.env import Delegating
from opshift.author.misreadings import misreadings
from opshift.author.node import Env, Node
from opshift.author.traits import DeclaredRules
from opshift.convert.runtime.form_lacks import failing
from opshift.convert.runtime.kernel_lacks import lacks_kernel
from opshift.convert.runtime.lack import since_of
from opshift.convert.runtime.operator_lacks import reads
from opshift.model.scope import Root
from opshift.opsets import layouts, schemas
from opshift.opsets.types import rank_of
from opshift.protos import NodeProto, TypeProto

if TYPE_CHECKING:
    from opshift.opsets.targets import RuntimeRelease


class _NewNodes(Delegating):
    """An environment in which the producer of a value may be a new node."""

    def __init__(self, env: Env, nodes: Iterable[NodeProto], root: Root) -> None:
        super().__init__(env)
        self.makers = {name: node for node in nodes for name in node.output}
        self.root = root

    def producer(self, name: str) -> Node | None:
        made = self.makers.get(name)
        return self.env.producer(name) if made is None else self.node(made)

    def node(self, proto: NodeProto) -> Node:
        key = schemas.normal(proto.domain), proto.op_type
        return Node(proto, layouts.layout(*key, self.root.imports.get(key[0]) or 1), self)


def runs(
    nodes: Iterable[NodeProto],
    op: Builder,
    release: RuntimeRelease,
    rules: DeclaredRules,
    *,
    doubtful: bool = False,
) -> bool:
    """Returns whether a runtime can run these nodes, as far as is known.

    With `doubtful`, the result is also false if the runtime perhaps computes a node wrongly.
    """
    root = op.scope.root

    def type_of(name: str) -> TypeProto | None:
        return op.env.type(name)

    nodes = list(nodes)
    if not reads(nodes, root, release):
        return False
    new_nodes = _NewNodes(op.env, nodes, root)
    for node in nodes:
        key = schemas.normal(node.domain), node.op_type
        version = root.imports.get(key[0]) or 1
        written = new_nodes.node(node)
        for misreading in misreadings(rules, release, key):
            answer = misreading.is_form(written, version)
            if answer is not False and (
                doubtful or (answer and not misreading.is_uncertain(release))
            ):
                return False
        rank = rank_of(type_of(node.input[0])) if node.input and node.input[0] else None
        if failing(node, key, since_of(root, key), release, rank) is not None:
            return False
        if lacks_kernel(node, root, release, type_of):
            return False
    return True
