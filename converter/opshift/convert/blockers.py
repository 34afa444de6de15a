# SPDX-License-Identifier: Apache-2.0
"""The nodes that block a step, and the functions whose inlining may unblock it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from opshift.author.env import ModelEnv
from opshift.author.facts import Facts, ScopeEnv
from opshift.author.traits import Scales
from opshift.codes.refusals import Why
from opshift.convert.change import NodeChange
from opshift.errors import Refusal, RefusedNode
from opshift.model import walk
from opshift.model.document import MAX_NESTING, Document
from opshift.model.names import Owned
from opshift.model.scope import FunctionId, Scope
from opshift.opsets import schemas
from opshift.opsets.elements import NAMED
from opshift.opsets.schemas import Param
from opshift.opsets.type_pairs import replacements
from opshift.opsets.types import element_of
from opshift.protos import NodeProto

# Reasons for a refusal that may disappear if the function is inlined at its calls.
KNOWN_AT_CALL = frozenset(
    {Why.NEEDS_CONSTANT, Why.NEEDS_TYPE, Why.NEEDS_RANK, Why.NEEDS_SHAPE, Why.NEEDS_STATIC_ATTR}
)


class StepRefused(Exception):  # noqa: N818 - the caller turns it into Refused
    """Lists the nodes that block one version change, and the functions whose inlining may help.

    Inlining helps only if all functions in `functions` are inlined. For the functions in `unsure`,
    inlining one of them may be enough.
    """

    def __init__(
        self,
        refusals: list[RefusedNode],
        functions: frozenset[FunctionId] = frozenset(),
        unsure: frozenset[FunctionId] = frozenset(),
    ) -> None:
        super().__init__(len(refusals))
        self.refusals = refusals
        self.functions = functions
        self.unsure = unsure


class Outgrown(Exception):  # noqa: N818 - an outcome that the caller handles
    """Raised if the steps added more nodes than the node budget allows."""

    def __init__(self, domain: str, version: int) -> None:
        super().__init__(domain, version)
        self.reached = {domain: version}


class Blockers:
    """Collects the refused nodes of one step."""

    def __init__(self, facts: Facts, boundary: tuple[int, int]) -> None:
        self.document = facts.document
        self.facts = facts
        self.boundary = boundary
        self._refusals: list[RefusedNode] = []
        self._functions: set[FunctionId] = set()
        self._unsure: set[FunctionId] = set()
        self._movable = True  # whether inlining may unblock every refused node

    def __bool__(self) -> bool:
        return bool(self._refusals)

    @property
    def refused(self) -> StepRefused:
        """One exception with all refusals of the step."""
        if not self._movable:
            return StepRefused(self._refusals)
        sure = frozenset(self._functions)
        return StepRefused(self._refusals, sure, frozenset(self._unsure) - sure)

    def add(
        self, scope: Scope, proto: NodeProto, refusal: Refusal, *, known_at_call: bool = False
    ) -> None:
        """Records a refused node."""
        root = scope.root
        first = next((o for o in proto.output if o), "")
        where = self.document.where(proto)
        if root.kind != "graph":
            where = f"{where} (in {root.name})"
        open_ = refusal.why in KNOWN_AT_CALL
        around = {root.function} if root.function and (known_at_call or open_) else set()
        behind = self.document.calls_behind(scope, proto) if open_ else set()
        (self._unsure if len(around | behind) > 1 else self._functions).update(around | behind)
        self._movable &= bool(around | behind)
        domain, op, boundary = schemas.normal(proto.domain), proto.op_type, self.boundary
        missed = self.document.missed.get(first)
        types = ""
        if refusal.why is Why.TYPE_NOT_AVAILABLE:
            env, scaled = ScopeEnv(self.facts, scope), self.facts.adapters.rules(Scales)
            types = _offered_types(env, proto, boundary[1], scales=(domain, op) in scaled)
        self._refusals.append(
            RefusedNode(where, op, domain, boundary, refusal.why, refusal.detail, missed, types)
        )


def refuse_what_is_read(
    document: Document, changes: Sequence[NodeChange], blockers: Blockers
) -> None:
    """Refuses to remove a node without replacement if another node still reads its outputs."""
    going = [c for c in changes if c.made.unread is not None]
    if not going:
        return
    reads: Counter[Owned] = Counter()
    for root in document.roots:
        reads |= document.names.readers(root)
    for change in changes:
        scope = change.place[0]
        reads.subtract((scope.owner(name), name) for name in change.node.proto.input)
        # If an adapter reuses subgraphs of the old node, the reads in them are counted there.
        moved_graphs = change.node.graphs_taken
        for node in change.made.nodes:
            names = node.input if moved_graphs else walk.reads(node)
            reads.update((scope.owner(name), name) for name in names)
    for change in going:
        scope, proto = change.place[0], change.node.proto
        if any(reads[scope, name] > 0 for name in proto.output if name):
            refusal = Refusal(Why.NOT_EXPRESSIBLE, change.made.unread or "")
            blockers.add(scope, proto, refusal, known_at_call=True)


def refuse_what_lies_too_deep(changes: Sequence[NodeChange], blockers: Blockers) -> None:
    """Refuses changes that nest graphs more deeply than a model file allows."""
    for change in changes:
        scope, proto = change.place[0], change.node.proto
        if scope.depth + walk.levels(change.made.nodes) > MAX_NESTING:
            reason = f"the replacement nests graphs more than {MAX_NESTING} levels deep"
            blockers.add(scope, proto, Refusal(Why.NOT_EXPRESSIBLE, reason))


def _offered_types(env: ModelEnv, node: NodeProto, version: int, *, scales: bool) -> str:
    """Returns a change such as `bfloat16=float` to an element type that the operator accepts.

    Returns "" if no change helps. With `scales`, the operator scales float8 numbers and can be
    rewritten for any wider type.
    """
    schema = schemas.schema(schemas.normal(node.domain), node.op_type, version)
    if schema is None or not schema.stated:
        return ""
    for start, accepted in _refused(env, schema.ends(node.input, node.output)):
        wider = scales and NAMED[start].is_float8
        fits = [to for to in replacements(start) if wider or f"tensor({to})" in accepted]
        if fits:
            return f"{start}={fits[-1]}"
    return ""


def _refused(
    env: ModelEnv, ends: Iterable[tuple[str, Param]]
) -> Iterator[tuple[str, frozenset[str]]]:
    """Yields the element types that a schema rejects, with the types that it accepts instead."""
    for name, param in ends:
        kind = element_of(env.type(name))
        if kind in NAMED and f"tensor({kind})" not in param.types:
            yield kind, param.types
