# SPDX-License-Identifier: Apache-2.0
"""Names the nodes that onnxruntime answers differently from the specification."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from opshift.author.facts import Facts
from opshift.author.node import Env, Node
from opshift.author.registry import Registry
from opshift.author.traits import Differs
from opshift.errors import Refusal
from opshift.model.document import Document
from opshift.opsets import schemas

WORDS = "onnxruntime answers differently from the specification here"


def notes(
    document: Document, facts: Facts, adapters: Registry, goal: Mapping[str, int]
) -> Iterator[str]:
    """One line for each such node whose operator changes on the way to a goal."""
    differing = adapters.traits(Differs)
    for root in document.roots:
        for key in sorted(root.index.keys() & differing.keys()):
            version = root.imports.get(key[0]) or 0
            aim = goal.get(key[0], version)
            if schemas.schema(*key, version) == schemas.schema(*key, aim):
                continue
            for scope, position in root.index[key]:
                proto = scope.node(position)
                node = Node(proto, root.schema_of(proto), Env(facts, scope))
                for one in differing[key] if node.schema is not None else ():
                    with contextlib.suppress(Refusal):  # too little is known to tell
                        if told := one.look(node):
                            where = node.name or next(filter(None, proto.output), "")
                            yield f"{node.op} {where!r}: {WORDS}: {told}"
