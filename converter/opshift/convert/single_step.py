# SPDX-License-Identifier: Apache-2.0
"""A step that rewrites the nodes of one operator with one adapter, at the same version."""

from __future__ import annotations

from collections.abc import Iterator

from opshift.author.verdicts import WIDER, Adapter
from opshift.convert.plan_table import Edge
from opshift.convert.planner import CrossingPlan
from opshift.convert.state import State
from opshift.convert.step import Stepper
from opshift.model.scope import Key, Root
from opshift.text import qualified


class SingleStepper(Stepper):
    """Rewrites the nodes of one operator (the first in `adapter.ops`) with a given adapter."""

    adapter: Adapter

    def _work(self, root: Root) -> Iterator[tuple[Key, Adapter]]:
        yield (self.domain, self.adapter.ops[0]), self.adapter


def single_stepper(
    state: State, plan: CrossingPlan, adapter: Adapter, version: int
) -> SingleStepper:
    """Returns a step that computes an operator in wider types, with Casts before and after it."""
    domain, op = adapter.domain, adapter.ops[0]
    writes = tuple(sorted({qualified(domain, op), "ai.onnx.Cast"}))
    plan.edges[(domain, op, *WIDER)] = Edge(*WIDER, "rewrite", False, writes)
    made = SingleStepper(
        state.document, state.facts, plan, domain, version, version,
        state.options.allow_approximate,
    )  # fmt: skip
    made.adapter, made.boundary = adapter, WIDER
    made.checks = state.options.checks
    return made
