# SPDX-License-Identifier: Apache-2.0
"""Asks the authors of operators what is wrong with a model, once a conversion has failed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from opshift.author.facts import Facts
from opshift.author.node import Env, Node
from opshift.author.registry import Registry
from opshift.author.traits import Flaw
from opshift.errors import Refusal
from opshift.model import weights
from opshift.model.document import Document
from opshift.protos import ModelProto


def first(model: ModelProto, adapters: Registry) -> str | None:
    """The first node that cannot be as it is, in a sentence; None where nobody objects."""
    skeleton, store = weights.carve_model(model)
    document = Document(skeleton)
    facts = Facts(document, store, adapters, lambda: skeleton)
    for node, flaw in _asked(document, facts, adapters.traits(Flaw)):
        told = None
        with contextlib.suppress(Refusal):  # what it needs to know is not there either
            told = flaw.look(node)
        if told is not None:
            where = node.name or next((o for o in node.proto.output if o), "")
            return f"{node.op} {where!r}: {told}"
    return None


def _asked(
    document: Document, facts: Facts, flaws: Mapping[tuple[str, str], tuple[Flaw, ...]]
) -> Iterator[tuple[Node, Flaw]]:
    for root in document.roots:
        for key in sorted(root.index.keys() & flaws.keys()):
            for scope, position in root.index[key]:
                proto = scope.node(position)
                node = Node(proto, root.schema_of(proto), Env(facts, scope))
                if node.schema is not None:
                    yield from ((node, flaw) for flaw in flaws[key])
