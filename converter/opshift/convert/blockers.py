# SPDX-License-Identifier: Apache-2.0
"""The nodes that block a step, and whether inlining a function may unblock them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from opshift.convert.change import NodeChange
from opshift.errors import Refusal, RefusedNode, Why
from opshift.model import walk
from opshift.model.document import Document
from opshift.model.names import Owned
from opshift.model.scope import FunctionId, Scope, call_id
from opshift.opsets import schemas
from opshift.protos import NodeProto

# Reasons that may disappear if the function is inlined at its calls.
KNOWN_AT_CALL = frozenset(
    {Why.NEEDS_CONSTANT, Why.NEEDS_TYPE, Why.NEEDS_RANK, Why.NEEDS_SHAPE, Why.NEEDS_STATIC_ATTR}
)


class StepRefused(Exception):  # noqa: N818 - an answer, turned into Refused by the loop
    """Every blocker of one boundary, and the functions in whose bodies some of them lie."""

    def __init__(self, refusals: list[RefusedNode], functions: frozenset[FunctionId]) -> None:
        super().__init__(len(refusals))
        self.refusals = refusals
        self.functions = functions


class Outgrown(Exception):  # noqa: N818 - an answer, not an error
    """The steps have written more nodes than the node budget allows."""

    def __init__(self, domain: str, version: int) -> None:
        super().__init__(domain, version)
        self.reached = {domain: version}


class Blockers:
    """Collects the refused nodes of one step."""

    def __init__(self, document: Document, boundary: tuple[int, int]) -> None:
        self.document = document
        self.boundary = boundary
        self._refusals: list[RefusedNode] = []
        self._functions: set[FunctionId] = set()
        self._movable = True  # whether inlining functions may unblock each of them

    def __bool__(self) -> bool:
        return bool(self._refusals)

    @property
    def refused(self) -> StepRefused:
        """All refusals of the step as one exception."""
        movable = frozenset(self._functions) if self._movable else frozenset()
        return StepRefused(self._refusals, movable)

    def add(
        self, scope: Scope, proto: NodeProto, refusal: Refusal, *, known_at_call: bool = False
    ) -> None:
        """Notes a node that was refused."""
        root = scope.root
        first = next((o for o in proto.output if o), "")
        where = proto.name or first
        if written_for := self.document.origins.get(first):
            where = f"{where} (written for {written_for})"
        if root.kind != "graph":
            where = f"{where} (in {root.name})"
        if root.function is not None and (known_at_call or refusal.why in KNOWN_AT_CALL):
            self._functions.add(root.function)
        elif refusal.why in KNOWN_AT_CALL and (behind := self._calls_behind(scope, proto)):
            self._functions |= behind
        else:
            self._movable = False
        domain, op, boundary = schemas.normal(proto.domain), proto.op_type, self.boundary
        missed = self.document.missed.get(first)
        self._refusals.append(
            RefusedNode(where, op, domain, boundary, refusal.why, refusal.detail, missed)
        )

    def _calls_behind(self, scope: Scope, proto: NodeProto) -> set[FunctionId]:
        """The functions that compute inputs of a node: inlined, they may give more facts."""
        found = set()
        for name in filter(None, proto.input):
            owner = scope.owner(name)
            position = owner.producers.get(name) if owner else None
            if owner and position is not None and self.document.is_call(owner.node(position)):
                found.add(call_id(owner.node(position)))
        return found


def refuse_what_is_read(
    document: Document, changes: Sequence[NodeChange], blockers: Blockers
) -> None:
    """Refuses to dissolve a node that is still read once all nodes have their answers."""
    going = [c for c in changes if c.made.unread is not None]
    if not going:
        return
    reads: Counter[Owned] = Counter()
    for root in document.roots:
        reads |= document.names.readers(root)
    for change in changes:
        scope = change.place[0]
        reads.subtract((scope.owner(name), name) for name in change.node.proto.input)
        # Reads of a graph that an adapter took apart are counted in the old node.
        taken = change.node.graphs_taken
        for made in change.made.nodes:
            names = made.input if taken else walk.reads(made)
            reads.update((scope.owner(name), name) for name in names)
    for change in going:
        scope, proto = change.place[0], change.node.proto
        if any(reads[scope, name] > 0 for name in proto.output if name):
            refusal = Refusal(Why.NOT_EXPRESSIBLE, change.made.unread or "")
            blockers.add(scope, proto, refusal, known_at_call=True)
