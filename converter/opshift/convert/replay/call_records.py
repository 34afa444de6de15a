# SPDX-License-Identifier: Apache-2.0
"""Records of adapter calls: trees of questions that end in the results of adapters.

An adapter reads a model only through questions about types, shapes and constants. An adapter's
result for a node depends only on the node's operator and attributes, and on the answers to these
questions. Therefore the record of one call gives the result for every later node with equal
attributes and equal answers, in every conversion of the process.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Mapping
from dataclasses import field
from typing import Any, TypeAlias

from opshift.assumptions import Assumption
from opshift.author.builder import Builder
from opshift.author.node import Keep, Node
from opshift.author.registry import Registry
from opshift.author.written import Made
from opshift.codes.refusals import Why
from opshift.convert import ask
from opshift.convert.change import Task
from opshift.convert.replay import comparable
from opshift.convert.replay.binding import Asker, NodeTokens, filled, in_tokens, is_value
from opshift.convert.replay.comparable import NoAnswer, Untraceable
from opshift.convert.replay.recorder import Recorder, RecordingCrossing
from opshift.errors import AdapterBug, InvalidModel, Refusal
from opshift.model.scope import Scope
from opshift.model.walk import holds_graphs
from opshift.protos import NodeProto, TensorProto
from opshift.records import dataclass

MOST = 100_000  # branches per registry; beyond, all records are dropped


# -- results --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Kept:
    """The node stays unchanged."""


@dataclass(frozen=True, slots=True)
class RefusedLeaf:
    """The node is refused. `detail` has placeholders for names."""

    why: Why
    detail: str
    hints: Mapping[str, str]  # hints for the new names in `detail`

    def refusal(self, binding: NodeTokens) -> Refusal:
        """Returns the refusal with the names around one node."""

        def meaning(token: str) -> str:
            if token in self.hints:
                return binding.asker.fresh(self.hints[token])
            return binding.meaning(token)

        return Refusal(self.why, filled(self.detail, meaning))


@dataclass(frozen=True, slots=True)
class WrittenNode:
    """A new node without names, and the placeholders for its names."""

    raw: bytes
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Template:
    """The nodes and constants that replace a node, and the options that the caller must set."""

    nodes: tuple[WrittenNode, ...]
    carrier: int | None
    hints: dict[str, str]
    constants: dict[str, tuple[Hashable, TensorProto]]
    approximations: tuple[str, ...]
    assumptions: frozenset[Assumption]
    missed: frozenset[Assumption]
    ops: frozenset[str]
    unread: str | None
    reaches: bool  # whether a new node reads a value that the old node does not read

    def made(self, binding: NodeTokens) -> Made:
        """Returns the new nodes, with the names around one node of a model."""
        asker, root = binding.asker, binding.scope.root
        names: dict[str, str] = {"": ""}
        replacement = Made(carried=frozenset())
        for token, (content, tensor) in self.constants.items():
            placed = asker.constant(root, content, lambda tensor=tensor: tensor)  # type: ignore[misc]
            names[token] = placed.name
            replacement.constants[placed.name] = placed

        def name_of(token: str) -> str:
            if token not in names:
                if token in self.hints:
                    names[token] = asker.fresh(self.hints[token])
                else:
                    names[token] = binding.place(token)[1]
            return names[token]

        for new_node in self.nodes:
            node = NodeProto.FromString(new_node.raw)
            node.input.extend(map(name_of, new_node.inputs))
            node.output.extend(map(name_of, new_node.outputs))
            if new_node.name:
                node.name = filled(new_node.name, binding.meaning)
            replacement.add(node)
        replacement.carrier = None if self.carrier is None else replacement.nodes[self.carrier]
        replacement.approximations += [
            filled(approximation, binding.meaning) for approximation in self.approximations
        ]
        replacement.assumptions |= self.assumptions
        replacement.missed |= self.missed
        replacement.ops |= self.ops
        if self.unread is not None:
            replacement.unread = filled(self.unread, binding.meaning)
        return replacement


Leaf: TypeAlias = Kept | RefusedLeaf | Template


def template_of(replacement: Made, crossing: RecordingCrossing, binding: NodeTokens) -> Template:
    """Returns the nodes that an adapter wrote, as a template with placeholders for names."""
    if replacement.carried or any(map(holds_graphs, replacement.nodes)):
        raise Untraceable
    nodes = tuple(map(_without_names, replacement.nodes))
    read = {token for node in nodes for token in node.inputs if token}
    named = read.union(token for node in nodes for token in node.outputs if token)
    for token in named - crossing.hints.keys() - crossing.constants.keys():
        # raises for an unknown name; the adapter's bug is reported without a record
        binding.place(token)
    carriers = [i for i, node in enumerate(replacement.nodes) if node is replacement.carrier]
    return Template(
        nodes,
        carriers[0] if carriers else None,
        crossing.hints,
        crossing.constants,
        tuple(replacement.approximations),
        frozenset(replacement.assumptions),
        frozenset(replacement.missed),
        frozenset(replacement.ops),
        replacement.unread,
        any(is_value(token) for token in read.difference(binding.inputs)),
    )


def _without_names(node: NodeProto) -> WrittenNode:
    bare = NodeProto()
    bare.CopyFrom(node)
    bare.ClearField("input")
    bare.ClearField("output")
    bare.ClearField("name")
    return WrittenNode(bare.SerializeToString(), node.name, tuple(node.input), tuple(node.output))


# -- records --------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Branch:
    """A question of an adapter with a branch for each answer, or the result of the adapter.

    `untraceable` is true if the next fact that the adapter reads cannot be recorded.
    """

    question: tuple[Any, ...] | None = None
    branches: dict[Any, Branch] = field(default_factory=dict)
    leaf: Leaf | None = None
    ranks_used: tuple[str, ...] = ()
    sound: set[Hashable] = field(default_factory=set)  # kinds of nodes that passed the checks
    untraceable: bool = False


class Records:
    """The records of all adapter calls of one registry."""

    def __init__(self) -> None:
        self._trees: dict[Hashable, Branch] = {}
        self._kept_alive: dict[int, object] = {}  # objects whose ids are parts of keys
        self._size = 0

    def find(
        self, asker: Asker, task: Task, scope: Scope, node: NodeProto
    ) -> tuple[Branch, NodeTokens] | None:
        """Returns the recorded result for a node.

        Without a record, calls the adapter and records the call.

        Returns None if the call cannot be recorded. After the result None, the caller must call the
        adapter for the node itself.
        """
        binding = NodeTokens(asker, scope, node)
        try:
            key = self._key(asker, task, binding)
        except Untraceable:
            return None
        tree = self._trees.get(key)
        if tree is None:
            if self._size > MOST:
                self._trees.clear()
                self._size = 0
            tree = self._trees[key] = Branch()
        branch = _walk(tree, binding)
        if branch is None and self._record(tree, asker, task, NodeTokens(asker, scope, node)):
            binding = NodeTokens(asker, scope, node)
            branch = _walk(tree, binding)
        return None if branch is None or branch.leaf is None else (branch, binding)

    def _key(self, asker: Asker, task: Task, binding: NodeTokens) -> Hashable:
        """Returns what is known about a node before the adapter's first question."""
        root = binding.scope.root
        for part in (task.adapter, task.schema):
            self._kept_alive[id(part)] = part
        return (
            id(task.adapter), id(task.schema), asker.boundary, asker.domain, asker.to, task.lost,
            asker.enters, asker.allow_approximate, frozenset(asker.assume), root.kind,
            root.imports.get(""), comparable.of_node(binding.node), binding.inputs, binding.outputs,
        )  # fmt: skip

    def _record(self, tree: Branch, asker: Asker, task: Task, binding: NodeTokens) -> bool:
        """Calls the adapter and adds a record of the call to a tree; returns whether it did."""
        recorder = Recorder(binding)
        try:
            leaf = asked(asker, task, recorder)
        except NoAnswer:
            return False
        branch = tree
        for question, answer in recorder.asked.items():
            if branch.leaf is not None or branch.question not in (None, question):
                source = task.adapter.source
                raise AssertionError(
                    f"{source} reads {question} of one node, but not of an equal node"
                )
            branch.question = question
            if answer not in branch.branches:
                branch.branches[answer] = Branch()
                self._size += 1
            branch = branch.branches[answer]
        branch.untraceable = leaf is None
        branch.leaf, branch.ranks_used = leaf, recorder.relied_on
        return leaf is not None


def _walk(tree: Branch, binding: NodeTokens) -> Branch | None:
    """Follows the answers for a node through a tree of questions; returns the end, or None."""
    branch = tree
    while branch.leaf is None and not branch.untraceable:
        if branch.question is None:
            return None
        next_branch = branch.branches.get(binding.answer(branch.question))
        if next_branch is None:
            return None
        branch = next_branch
    return branch


def asked(asker: Asker, task: Task, recorder: Recorder) -> Leaf | None:
    """Returns the adapter's result with placeholders for names; None if it cannot be recorded."""
    binding = recorder.binding
    crossing = RecordingCrossing(asker, recorder)
    proto = in_tokens(binding.node, binding.inputs, binding.outputs)
    op = Builder(crossing, recorder, subject=proto)
    node = Node(proto, task.schema, op.env)
    try:
        try:
            answer = ask.ask(task, node, op)
        finally:  # the checks of the result may use more ranks
            recorder.relied_on = tuple(recorder.ranks_used)
        if isinstance(answer, Keep):
            return Kept()
        ask.name_outputs(node, answer, op, task.adapter)
        ask.check_types(node, op)
        return template_of(op.made, crossing, binding)
    except Refusal as refusal:
        hints = {**crossing.hints, **dict.fromkeys(crossing.constants, "const")}
        return RefusedLeaf(refusal.why, refusal.detail, hints)
    except NoAnswer:
        raise
    except (Untraceable, AdapterBug, InvalidModel):  # the error message needs the real names
        return None


_ALL: weakref.WeakKeyDictionary[Registry, Records] = weakref.WeakKeyDictionary()


def of(adapters: Registry) -> Records:
    """Returns the records of a registry, which live as long as the registry."""
    if adapters not in _ALL:
        _ALL[adapters] = Records()
    return _ALL[adapters]


def forget() -> None:
    """Drops all records of adapter calls, because the code of an adapter was changed."""
    _ALL.clear()
