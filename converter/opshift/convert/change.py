# SPDX-License-Identifier: Apache-2.0
"""The data of one step: a task for each operator, a change for each node, and the totals."""

from __future__ import annotations

from collections import Counter
from dataclasses import field
from typing import NamedTuple

from opshift.author.builder import Builder
from opshift.author.node import Node
from opshift.author.verdicts import Adapter
from opshift.author.written import Made
from opshift.convert.guard import Guard
from opshift.model.scope import FunctionId, Key, Place
from opshift.opsets import schemas
from opshift.records import dataclass


@dataclass(frozen=True, slots=True)
class Task:
    """The adapter, schemas and checks for all nodes of one operator at one version change."""

    key: Key
    adapter: Adapter
    schema: schemas.Schema | None  # the schema of the version before the step
    derived: Guard | None
    lost: frozenset[str]


@dataclass(slots=True)
class NodeChange:
    """The nodes that replace one node."""

    place: Place
    task: Task
    made: Made
    node: Node
    builder: Builder

    @property
    def kind(self) -> Rewritten:
        """The replaced operator, the new operators and the adapter, for the report."""
        gives = tuple([node.op_type for node in self.made.nodes])
        op, adapter = self.task.key[1], self.task.adapter
        return Rewritten(op, gives, adapter.source, adapter.identity(op), adapter.sentence)


class Rewritten(NamedTuple):
    """A kind of rewrite: the replaced operator, the operators that replace it, and the adapter."""

    op: str
    gives: tuple[str, ...]
    adapter: str
    id: str
    why: str


class Suspect(NamedTuple):
    """A change after which inferred lengths contradict each other.

    `inferred` is true if onnx's inference accepts the replaced node. If the replaced operator has
    no inference, wrong lengths in the model stayed undetected until now.
    """

    text: str
    inferred: bool
    depends_on: frozenset[str] | None


@dataclass(slots=True)
class Step:
    """The record of one step: rewrites, approximations, assumptions and touched nodes.

    `touched` has each node that must be checked against the new version, with the adapter that
    wrote or kept the node.
    """

    domain: str
    start: int
    to: int
    rewritten: Counter[Rewritten] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)
    approximations: list[str] = field(default_factory=list)
    approximated: set[Key] = field(default_factory=set)  # the operators of the approximated nodes
    # functions whose inlining may avoid approximations
    inexact: set[FunctionId] = field(default_factory=set)
    assumptions: list[str] = field(default_factory=list)
    touched: dict[Place, str] = field(default_factory=dict)
    # changes of lengths, recorded only in a rerun with full checks
    suspects: list[Suspect] = field(default_factory=list)
