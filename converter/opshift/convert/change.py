# SPDX-License-Identifier: Apache-2.0
"""One step as data: a task for each operator, a change for each node, and the sums."""

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
    """The facts that the nodes of one operator share at one boundary."""

    key: Key
    adapter: Adapter
    schema: schemas.Schema | None  # of the version being left
    derived: Guard | None
    lost: frozenset[str]


@dataclass(slots=True)
class NodeChange:
    """The answer for one node: the nodes that replace it."""

    place: Place
    task: Task
    made: Made
    node: Node
    builder: Builder

    @property
    def kind(self) -> Rewritten:
        """The kind of rewriting for the report."""
        gives = tuple([node.op_type for node in self.made.nodes])
        op, adapter = self.task.key[1], self.task.adapter
        return Rewritten(op, gives, adapter.source, adapter.identity(op), adapter.summary)


class Rewritten(NamedTuple):
    """A kind of rewriting that a step did, for the report."""

    op: str
    gives: tuple[str, ...]
    adapter: str
    id: str
    why: str


class Suspect(NamedTuple):
    """A change after which lengths do not fit.

    `inferred` says that inference of onnx accepts the replaced node. If no inference exists for its
    operator, the lengths in the model may be wrong.
    """

    told: str
    inferred: bool
    depends_on: frozenset[str] | None


@dataclass(slots=True)
class Step:
    """What one step did.

    `touched` are the nodes to be checked against the version entered, each with the adapter that
    wrote it or left it.
    """

    domain: str
    start: int
    to: int
    rewritten: Counter[Rewritten] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)
    approximations: list[str] = field(default_factory=list)
    approximated: set[Key] = field(default_factory=set)  # the operators of these nodes
    inexact: set[FunctionId] = field(default_factory=set)  # whose calls may avoid approximations
    assumptions: list[str] = field(default_factory=list)
    touched: dict[Place, str] = field(default_factory=dict)
    suspects: list[Suspect] = field(default_factory=list)  # changes of lengths, in a traced run
