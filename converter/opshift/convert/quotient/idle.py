# SPDX-License-Identifier: Apache-2.0
"""Operators whose nodes no step changes and no adapter looks at: the schemas alone prove it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from opshift.author.present_types import tokens, types_from
from opshift.author.registry import Registry
from opshift.author.traits import Differs
from opshift.author.verdicts import FORM
from opshift.convert import guard, planner
from opshift.convert.classes.nested import holds_graphs
from opshift.convert.classes.operation import Operation
from opshift.convert.ir.features import TYPES
from opshift.convert.quotient.template import Answer
from opshift.convert.step import is_idle
from opshift.opsets import schemas
from opshift.records import dataclass


@dataclass(frozen=True, slots=True)
class Idle:
    """The answer for an operation, and the types that some opset on the way does not accept."""

    answer: Answer
    lost: frozenset[str]

    def covers(self, types: Callable[[], Sequence[frozenset[str]]]) -> bool:
        """Whether it is the answer for a class whose values have these types."""
        if not self.lost:  # mostly
            return True
        known = types()
        every = frozenset[str]().union(*known)
        return all(known) and not any(tokens(text) <= every for text in self.lost)


def find(adapters: Registry, key: tuple[str, str], start: int, to: int) -> Idle | None:
    """What is known of an operator on the way between two opsets, if the schemas tell it."""
    before, after = schemas.schema(*key, start), schemas.schema(*key, to)
    if before is None or after is None or before.deprecated or after.deprecated:
        return None
    if key[0] != "" or _is_looked_at(adapters, key):
        return None
    kept, lost = [], set[str]()
    for edge in planner.own_way(adapters, *key, start, to):
        crossed = (edge.start, edge.to)
        adapter, derived = adapters.get(*key, *crossed), guard.derive(*key, *crossed)
        if edge.dead or adapter is None or derived is None or not is_idle(adapter, derived):
            return None
        kept.append(((0, "", *crossed), key[1], 1))
        lost.update(*derived.lost.values())
    answer = Answer(None, tuple(kept), (), (), renamed=False, asked_readers=False)
    return Idle(answer, frozenset(lost))


def fits(operation: Operation, ir_version: int) -> bool:
    """Whether the nodes of an operation are no more than their operator and plain attributes."""
    if operation.schema is None or holds_graphs(operation.signature):
        return False
    brought = types_from(operation.proto, operation.schema)
    return not any(TYPES.get(one, 0) > ir_version for one in brought)


def _is_looked_at(adapters: Registry, key: tuple[str, str]) -> bool:
    """Whether an adapter looks at nodes of an operator beside the steps."""
    if adapters.get(*key, *FORM) is not None or adapters.retired(*key) is not None:
        return True
    return key in adapters.traits(Differs)
