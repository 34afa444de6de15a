# SPDX-License-Identifier: Apache-2.0
"""Converts a whole model from one version of a domain to the next.

If one node is refused, no node changes.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from typing import NamedTuple

from opshift.assumptions import Assumption
from opshift.author import registry
from opshift.author.builder import Builder
from opshift.author.facts import Facts, ScopeEnv
from opshift.author.node import KEEP, Keep, Node, Result
from opshift.author.verdicts import (
    EQUAL_FORMS,
    LEAVE,
    RETIRED,
    Adapter,
    CastNarrowed,
    Unchanged,
    place_of,
)
from opshift.author.written import Made
from opshift.codes.refusals import Why
from opshift.convert import guard, planner
from opshift.convert.apply import Applier
from opshift.convert.ask import ask, check_types, name_outputs, require_declared
from opshift.convert.blockers import (
    Blockers,
    Outgrown,
    refuse_what_is_read,
    refuse_what_lies_too_deep,
)
from opshift.convert.change import NodeChange, Step, Suspect, Task
from opshift.convert.guard import Guard
from opshift.convert.legal import diagnose, rules
from opshift.convert.legal.written_rules import WrittenNodes, is_inferred, suspect_lengths
from opshift.convert.plan_table import Edge
from opshift.convert.replay import call_records
from opshift.convert.replay.binding import NodeTokens
from opshift.convert.replay.call_records import Branch, Records, RefusedLeaf, Template
from opshift.errors import AdapterBug, FaultyChange, Refusal
from opshift.model.functions import omitted_inputs
from opshift.model.scope import FunctionId, Key, Place, Root, Scope
from opshift.model.sweep import sweep
from opshift.model.walk import named
from opshift.opsets import layouts, schemas
from opshift.protos import NodeProto, TensorProto, TypeProto
from opshift.report import REWRITE
from opshift.text import qualified


class NodeAnswer(NamedTuple):
    """A node, the Builder with its replacement, and the kinds of replacements already checked."""

    node: Node
    op: Builder
    sound: set[Hashable]
    kind: Hashable


def is_idle(adapter: Adapter, derived: Guard) -> bool:
    """Returns whether schemas prove that a node stays if the new schema accepts its types."""
    return isinstance(adapter.verdict, Unchanged | CastNarrowed) and not derived.structural


def cross(adapters: registry.Registry, node: Node, start: int, to: int, op: Builder) -> Result:
    """Converts a node that an adapter wrote for another opset to the next opset."""
    key = (schemas.normal(node.proto.domain), node.op)
    if max(start, to) not in {implementation.since for implementation in schemas.history(*key)}:
        return KEEP
    adapter = adapters.get(*key, start, to)
    if adapter is None or not registry.reviewed(adapter, node.op):
        raise AdapterBug(f"no adapter converts {node.op} from {start} to {to}")
    schema, derived = schemas.schema(*key, start), guard.derive(*key, start, to)
    lost = derived.lost_in(op.env.possible_types()) if derived else frozenset[str]()
    return ask(Task(key, adapter, schema, derived, lost), node, op)


def _depth(change: NodeChange) -> int:
    """Returns the number of graphs in which a node is nested."""
    return change.place[0].depth


class Stepper:
    """Converts a model from one version of a domain to another."""

    def __init__(
        self,
        facts: Facts,
        plan: planner.CrossingPlan,
        domain: str,
        start: int,
        to: int,
        allow_approximate: bool,
        assume: Collection[Assumption] = (),
    ) -> None:
        self.document = facts.document
        self.facts = facts
        self.plan = plan
        self.adapters = plan.adapters
        self.domain = domain
        self.start = start
        self.to = to
        self.goal = to
        self.node_budget: int | None = None
        self.added = 0  # nodes, by all steps: those they wrote less those they replaced
        self.allow_approximate = allow_approximate
        self.assume = assume
        self.step = Step(domain, start, to)
        self.blockers = Blockers(facts, (start, to))
        self.settled = False  # whether nodes in subgraphs of rewritten nodes are converted
        self.checks = True  # whether new nodes are checked
        self.traces = False  # whether every type is inferred, to find the faulty change
        self.given: set[str] = set()  # the new names of the present change
        self.typed: set[tuple[object, ...]] = set()  # the kinds of changes whose types were checked
        self.only: frozenset[tuple[int, int]] | None = None  # the nodes to convert; None: all
        # the boundary of the verdicts; RETIRED if `start` equals `to`
        self.boundary = (start, to) if start != to else RETIRED
        self.runs: Callable[[NodeChange], bool] | None = None  # whether a runtime runs a change
        self.left: frozenset[Key] = frozenset()  # operators that are rewritten in another domain
        self.lowest = 1  # the version of another domain that the present verdict needs
        self.records: Records | None = call_records.of(plan.adapters)
        self.withheld: dict[Key, str] = {}  # equal forms that need the caller's permission
        self.partial = False  # whether nodes are rewritten although others are refused
        self.adapter: Adapter | None = None  # the only adapter of the step; None: by the plan

    def of_adapter(self, adapter: Adapter) -> Stepper:
        """Returns this step, which then rewrites only one operator, with the given adapter."""
        key = (adapter.domain, adapter.ops[0])
        self.adapter, self.boundary = adapter, (adapter.start, adapter.to)
        writes = tuple(sorted({qualified(*key), "ai.onnx.Cast"}))
        self.plan.edges[(*key, *self.boundary)] = Edge(*self.boundary, REWRITE, False, writes)
        return self

    # -- the interface for a Builder ---------------------------------------------------------

    def fresh(self, hint: str) -> str:
        name = self.document.fresh(hint)
        self.given.add(name)
        return name

    @property
    def enters(self) -> str:
        """The domain whose version changes in this step."""
        return "" if self.left else self.domain

    def version(self, root: Root, domain: str) -> int:
        if domain == self.domain:
            return self.to
        return root.imports.get(domain) or self.document.add_import(
            root, domain, planner.lowest_to_write(self._met(domain), domain)
        )

    def _met(self, domain: str) -> Iterator[Adapter]:
        """Yields the adapters for the model's operators, which may write operators of `domain`."""
        for root in self.document.roots:
            for key in root.index:
                leaves = key in self.left and not domain
                boundary = LEAVE if leaves else (self.start, self.to)
                verdict = self.adapters.get(*key, *boundary)
                if verdict is not None:
                    yield verdict

    def constant(
        self, root: Root, content: Hashable, tensor: Callable[[], TensorProto]
    ) -> TensorProto:
        return self.document.constant(root, content, tensor)

    def cross(self, node: Node, start: int, to: int, op: Builder) -> Result:
        return cross(self.adapters, node, start, to, op)

    # -- the step ----------------------------------------------------------------------------

    def run(self) -> Step:
        roots = [r for r in self.document.roots if r.imports.get(self.domain) == self.start]
        self._take(roots)
        for root in roots:
            root.imports[self.domain] = self.to
        return self.step

    def run_at(self, root: Root, places: Iterable[Place]) -> Step:
        """Converts single nodes to a version that their graph already imports."""
        self.only = frozenset((id(scope), position) for scope, position in places)
        self._take([root])
        return self.step

    def _take(self, roots: list[Root]) -> None:
        added = self.added
        changes = self._answers(roots)
        if self.blockers and sweep(self.document):
            # An unread node must not refuse the step.
            self.blockers = Blockers(self.facts, (self.start, self.to))
            self.step, self.added = Step(self.domain, self.start, self.to), added
            changes = self._answers(roots)
        if self.blockers and not self.partial:
            raise self.blockers.refused
        if changes:  # at most boundaries no node changes
            self._apply(changes)

    def _apply(self, changes: list[NodeChange]) -> None:
        applier = Applier(self.facts, self, self.step)
        with_moved_graphs = [c for c in changes if c.node.graphs_taken]
        for change in with_moved_graphs:
            self._hold_types(change)
        written = applier.apply([c for c in changes if not c.node.graphs_taken])
        if with_moved_graphs:
            self._pass_imports(written)
        self.settled = True
        # Adapters that reused a subgraph are called again with its new nodes, innermost first.
        # Nodes of equal depth are written together, because each writing invalidates the facts.
        for _, alike in itertools.groupby(
            sorted(with_moved_graphs, key=_depth, reverse=True), _depth
        ):
            again = [now for change in alike if (now := self._again(change)) is not None]
            refuse_what_lies_too_deep(again, self.blockers)
            if self.blockers:
                raise self.blockers.refused
            self._pass_imports(applier.apply(again))
        for scope in self.document.scopes() if with_moved_graphs else ():
            scope.ahead.clear()

    def _again(self, change: NodeChange) -> NodeChange | None:
        """Calls the adapter again for a node whose subgraphs changed; returns the change."""
        adapter = change.task.adapter
        again = self._change(change.place, self._own_task(change.task.key, adapter))
        if self.blockers:
            raise AdapterBug(
                f"{adapter.source} gave two different answers for one {change.node.op} node"
            )
        return again

    def _pass_imports(self, written: Iterable[Place]) -> None:
        """Records that new nodes already have the target version, until the graph imports it."""
        for scope, position in written:
            if schemas.normal(scope.node(position).domain) == self.enters:
                scope.ahead[position] = self.to

    def _hold_types(self, change: NodeChange) -> None:
        """Records element types that are known only because the model has no other type so far."""
        scope = change.place[0]
        node = Node(change.node.proto, change.node.schema, ScopeEnv(self.facts, scope))
        for value in filter(None, (*node.inputs, *node.outputs)):
            owner = scope.owner(value.name)
            if owner is None or self.facts.type(owner, value.name) is not None:
                continue
            if kind := value.elem_type_or_none:
                proto = TypeProto()
                proto.tensor_type.elem_type = kind
                self.facts.record_type(owner, value.name, proto, claimed=False)

    def _answers(self, roots: list[Root]) -> list[NodeChange]:
        changes = [c for root in roots for c in self._changes(root)]
        if not self.blockers:
            refuse_what_is_read(self.document, changes, self.blockers)
            refuse_what_lies_too_deep(changes, self.blockers)
        return changes

    def _changes(self, root: Root) -> Iterator[NodeChange]:
        for task in self._work(root):
            for place in self._places(root, task.key):
                change = self._change(place, task)
                if change is not None:
                    self._grow(len(change.made.nodes) - 1)
                    yield change
                elif isinstance(task.adapter.verdict, Unchanged):
                    self.step.touched[place] = task.adapter.source

    def _places(self, root: Root, key: Key) -> list[Place]:
        """Returns the nodes of one operator that the step converts."""
        places = root.index[key]
        if self.only is None:
            return list(places)
        return [(scope, at) for scope, at in places if (id(scope), at) in self.only]

    def _grow(self, nodes: int) -> None:
        self.added += nodes
        if self.node_budget is not None and self.added > self.node_budget:
            raise Outgrown(self.domain, self.start)

    def _own_task(self, key: Key, adapter: Adapter) -> Task:
        """Returns the adapter, schema and checks for all nodes of one operator."""
        schema = layouts.layout(*key, self.start) if key[0] == self.domain else None
        if schema is None:  # an operator from a later opset: its first version counts
            schema = next(iter(schemas.history(*key)), None)
        derived = guard.derive(*key, self.start, self.to) if self.start != self.to else None
        lost = derived.lost_in(self.facts.present_types) if derived else frozenset[str]()
        return Task(key, adapter, schema, derived, lost)

    def _work(self, root: Root) -> Iterator[Task]:
        """Yields the operators of a graph that may change or need a check.

        An operator is left out if schemas prove that no node of the operator changes.
        """
        if self.adapter is not None:
            yield self._own_task((self.domain, self.adapter.ops[0]), self.adapter)
            return
        for key in sorted(self._keys(root)):
            if not (places := self._places(root, key)):
                continue
            adapter = self.plan.verdict(key, self.boundary)
            if adapter is None:
                self._refuse_all(root, key)
                continue
            task = self._own_task(key, adapter)
            if task.derived and is_idle(adapter, task.derived) and not task.lost:
                self.step.kept[key[1]] += len(places)
            else:
                yield task

    def _keys(self, root: Root) -> Iterable[Key]:
        """Returns the operators of a graph that may change in this step."""
        own_keys = [key for key in root.index if key[0] == self.domain]
        if self.boundary == LEAVE:
            return self.left & root.index.keys()
        if self.boundary in EQUAL_FORMS:
            return [key for key in own_keys if self.adapters.get(*key, *self.boundary) is not None]
        if self.boundary == RETIRED:
            return self.adapters.replaced(root, self.domain, self.start, self.goal)
        changed = schemas.changed(self.domain, max(self.boundary))
        return [
            key
            for key in own_keys
            if key[1] in changed and schemas.schema(*key, self.start) is not None
        ]

    def _refuse_all(self, root: Root, key: Key) -> None:
        declared = self.adapters.get(self.domain, key[1], self.start, self.to)
        why = Why.NO_ADAPTER if declared is None else Why.UNREVIEWED
        if key in self.left:
            why = Why.DOMAIN_LEFT
        for scope, position in self._places(root, key):
            self.blockers.add(scope, scope.node(position), Refusal(why, why.sentence))

    def _change(self, place: Place, task: Task) -> NodeChange | None:
        """Returns the change of one node; an AdapterBug names the versions and the node."""
        try:
            return self._changed(place, task)
        except AdapterBug as bug:
            scope, position = place
            at, node = place_of(task.key[0], self.boundary), named(scope.node(position))
            by = "" if task.adapter.source in str(bug) else f"{task.adapter.source} "
            message = f"at {at}, {by}on {node}: {bug}"
            raise FaultyChange(message, diagnose.sources(self.document, place)) from bug

    def _changed(self, place: Place, task: Task) -> NodeChange | None:
        scope, position = place
        proto, adapter = scope.node(position), task.adapter
        self.given.clear()
        self.lowest = adapter.since
        try:
            answer = self._answer(scope, proto, task)
        except Refusal as refusal:
            if self.boundary not in EQUAL_FORMS:
                self.blockers.add(scope, proto, refusal)
            elif refusal.why is Why.APPROXIMATE_ONLY and self._runs_if_allowed(place, task):
                self.withheld[task.key] = refusal.detail
            return None
        if answer is None:
            self.step.kept[proto.op_type] += 1
            if not isinstance(adapter.verdict, Unchanged):
                self.step.touched[place] = adapter.source
            return None
        if name := self._omitted_by_a_call(scope, proto):
            if self.boundary not in EQUAL_FORMS:
                reason = f"a call of the function omits its input {name!r}"
                self.blockers.add(
                    scope, proto, Refusal(Why.NOT_EXPRESSIBLE, reason), known_at_call=True
                )
            return None
        node, op, sound, kind = answer
        if op.made.approximations:
            require_declared(adapter)
        self._plan_written(task.key, op.made, scope.root)
        if self.checks and kind not in sound and (self.settled or not node.graphs_taken):
            self._check(WrittenNodes(
                place, self.facts, node, op, adapter, self.domain, self.to, self.given, self.typed,
                self.traces,
            ))  # fmt: skip
            sound.add(kind)
        done = NodeChange(place, task, op.made, node, op)
        return done if self.runs is None or self.runs(done) else None

    def _omitted_by_a_call(self, scope: Scope, proto: NodeProto) -> str | None:
        """Returns an input of a node that is an input of its function and that a call omits."""
        root = scope.root
        if root.function is None or root.top.inputs.isdisjoint(proto.input):
            return None
        omitted = self._omitted[root.function]
        names = (name for name in proto.input if name in omitted)
        return next((name for name in names if scope.owner(name) is root.top), None)

    @functools.cached_property
    def _omitted(self) -> dict[FunctionId, set[str]]:
        """The inputs of functions that some call omits."""
        return omitted_inputs(self.document.model)

    def _runs_if_allowed(self, place: Place, task: Task) -> bool:
        """Returns whether the runtime would run the new nodes if approximations were allowed."""
        if self.runs is None:
            return True
        if self.allow_approximate:
            return False
        self.allow_approximate = True
        try:
            return self._changed(place, task) is not None
        except AdapterBug:
            return True  # the bug is reported if the caller allows approximations
        finally:
            self.allow_approximate = False

    def _answer(self, scope: Scope, proto: NodeProto, task: Task) -> NodeAnswer | None:
        """Returns the replacement of a node, from the adapter or a recorded call, or None."""
        record = self.records and self.records.find(self, task, scope, proto)
        if record:
            return self._replayed(*record, task)
        model = ScopeEnv(self.facts, scope)
        op = Builder(self, model, subject=proto)
        node = Node(proto, task.schema, op.env)
        try:
            answer = ask(task, node, op)
        finally:
            self._rely_on(model.claims)
        if isinstance(answer, Keep):
            return None
        name_outputs(node, answer, op, task.adapter)
        check_types(node, op)
        return NodeAnswer(node, op, set(), None)

    def _replayed(self, branch: Branch, binding: NodeTokens, task: Task) -> NodeAnswer | None:
        """Returns the replacement of a node from a recorded call; None if the node stays."""
        leaf, scope, proto = branch.leaf, binding.scope, binding.node
        for token in branch.ranks_used:
            env, name = binding.place(token)
            env.use_rank(name)
        self._rely_on(binding.claims)
        if isinstance(leaf, RefusedLeaf):
            raise leaf.refusal(binding)
        if not isinstance(leaf, Template):
            return None
        op = Builder(self, ScopeEnv(self.facts, scope), subject=proto)
        op.made = op.env.made = leaf.made(binding)
        declared = (scope.declared.get(name) for name in proto.output)
        kind = (scope.parent is None, *map(schemas.type_name, declared))
        # Whether a new node may read another value depends on the places of both.
        sound = set[Hashable]() if leaf.reaches else branch.sound
        return NodeAnswer(Node(proto, task.schema, op.env), op, sound, kind)

    def _rely_on(self, claims: Mapping[str, str]) -> None:
        """Records the declared types and shapes on which a result depends."""
        for value, part in claims.items():
            self.facts.relied_on.setdefault(value, part)

    def _plan_written(self, key: Key, replacement: Made, root: Root) -> None:
        """Plans the conversion of operators that the adapter wrote, if the plan lacks them."""
        planned = self.plan.edge(key, self.boundary).writes
        for name in sorted(replacement.ops.difference(planned, (qualified(*key), "Identity"))):
            domain, _, op = name.rpartition(".")
            self.plan.extend((domain, op), self.version(root, domain))

    def _check(self, change: WrittenNodes) -> None:
        """Checks the nodes that an adapter wrote."""
        rules.before_step(change)
        if self.traces:
            node, at = named(change.node.proto), place_of(self.domain, self.boundary)
            by = f"{change.adapter.source} wrote for {node} at {at}"
            if problems := [*suspect_lengths(change)]:
                behind, judged = diagnose.sources(self.document, change.place), is_inferred(change)
                self.step.suspects += [
                    Suspect(f"{by}: {problem}", judged, behind) for problem in problems
                ]
