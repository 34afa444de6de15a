# SPDX-License-Identifier: Apache-2.0
"""How many nodes each step of a conversion by classes kept, and wrote in another form."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator
from typing import Generic, TypeVar

from opshift.convert.change import Rewritten, Step
from opshift.convert.quotient.class_journal import Boundary
from opshift.convert.quotient.function_bodies import Bodies, Crossing
from opshift.convert.quotient.template import Answer
from opshift.convert.state import step_report
from opshift.report import StepReport

_Step = TypeVar("_Step", bound=Hashable)


class StepCounts(Generic[_Step]):
    """What each step did to the nodes of classes; `step_of` tells steps from each other."""

    def __init__(self, step_of: Callable[[Boundary], _Step]) -> None:
        self.step_of = step_of
        self.kept = defaultdict[_Step, Counter[str]](Counter)
        self.rewritten = defaultdict[_Step, Counter[Rewritten]](Counter)

    def add(self, answer: Answer, count: int) -> None:
        """Adds so many nodes with one answer."""
        for boundary, op, n in answer.kept:
            self.kept[self.step_of(boundary)][op] += n * count
        for boundary, kind, n in answer.rewritten:
            self.rewritten[self.step_of(boundary)][kind] += n * count

    def report(self, step: _Step, domain: str, start: int, to: int) -> StepReport:
        """What a report says of a step between two versions."""
        return step_report(Step(domain, start, to, self.rewritten[step], self.kept[step]))


def _crossing(boundary: Boundary) -> Crossing:
    return boundary[2:]


class CrossingCounts(StepCounts[Crossing]):
    """What the steps of the default domain did, by the versions that they lead from and to."""

    def __init__(self) -> None:
        super().__init__(_crossing)

    def add_rows(self, answers: Collection[Answer]) -> None:
        """Adds the nodes of the graph, of which many have one answer."""
        kinds = {id(answer): answer for answer in answers}
        for which, count in Counter(map(id, answers)).items():
            self.add(kinds[which], count)

    def add_bodies(self, bodies: Bodies) -> None:
        """Adds the nodes in functions, which each step looks at once."""
        for at, own in bodies.kept.items():
            self.kept[at].update(own)
        for at, written in bodies.rewritten.items():
            self.rewritten[at].update(written)

    def reports(self, start: int, to: int) -> Iterator[StepReport]:
        """What a report says of the steps between two versions."""
        way = 1 if to > start else -1
        crossings = [(start, start)] * ((start, start) in self.rewritten)
        crossings += [(at, at + way) for at in range(start, to, way)]
        crossings += [(to, to)] * (to != start and (to, to) in self.rewritten)
        for at in crossings:
            yield self.report(at, "", *at)
