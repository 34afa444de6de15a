# SPDX-License-Identifier: Apache-2.0
"""The functions of a model at the goal, and what a report tells of their nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from opshift.convert.change import Rewritten, Step
from opshift.convert.quotient.later_types import LaterTypes
from opshift.convert.quotient.template import Beyond
from opshift.model import numbering
from opshift.protos import ModelProto
from opshift.records import dataclass
from opshift.report import Report, StepReport, Work

Crossing = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Bodies:
    """The functions at the goal, and what the report tells of their nodes."""

    model: ModelProto  # its graph has only the calls
    prefix: str  # of the new names
    names: int  # that are new
    before: int  # nodes
    after: int
    kept: Mapping[Crossing, Mapping[str, int]]
    rewritten: Mapping[Crossing, Mapping[Rewritten, int]]
    types: frozenset[str] = frozenset()  # that occur in the functions, before and at the goal
    later_types: LaterTypes | None = None

    def named(self, prefix: str, used: int) -> list[bytes]:
        """The functions with new names behind those that the graph uses."""
        model = self.model
        if self.names and (prefix != self.prefix or used):
            model = ModelProto()
            model.CopyFrom(self.model)
            numbering.shift(model, self.prefix, prefix, used)
        return [one.SerializeToString(deterministic=True) for one in model.functions]


NO_BODIES = Bodies(ModelProto(), "", 0, 0, 0, {}, {})


def read(
    model: ModelProto, report: Report, prefix: str, unwritten: Iterable[Step], types: frozenset[str]
) -> Bodies:
    """The functions of a converted model of calls.

    A report leaves out the steps in which nothing was written.
    """
    steps = {(one.start, one.to): one for one in report.steps}
    apart = any(one.domain or not _is_on_the_way(one, report) for one in report.steps)
    if apart or len(steps) < len(report.steps):
        raise Beyond("a step of functions alone")
    kept = {at: one.kept for at, one in steps.items()}
    for step in unwritten:
        if (step.start, step.to) in kept:
            raise Beyond("a step of functions alone")
        kept[step.start, step.to] = step.kept
    calls = len(model.graph.node)
    assert report.nodes_before is not None
    assert report.nodes_after is not None
    return Bodies(
        model,
        prefix,
        len(numbering.new_names(model, prefix)),
        report.nodes_before - calls,
        report.nodes_after - calls,
        kept,
        {at: dict(map(_counted, one.rewritten)) for at, one in steps.items()},
        types,
    )


def _is_on_the_way(step: StepReport, report: Report) -> bool:
    """Whether each model makes a step, or one with a node that it rewrites."""
    start, goal = report.source[""], report.result[""]
    if step.start == step.to:
        return step.to in (start, goal) and bool(step.rewritten)
    low, high = sorted((start, goal))
    upward = step.start < step.to
    return upward == (start < goal) and low <= min(step.start, step.to) < high


def _counted(work: Work) -> tuple[Rewritten, int]:
    return Rewritten(work.op, work.gives, work.adapter, work.id), work.count
