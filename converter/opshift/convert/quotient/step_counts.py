# SPDX-License-Identifier: Apache-2.0
"""How many nodes each step of a conversion by classes kept, and wrote in another form."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator

from opshift.convert.change import Rewritten, Step
from opshift.convert.quotient.function_bodies import Bodies
from opshift.convert.quotient.template import Answer
from opshift.convert.state import step_report
from opshift.report import StepReport

Crossing = tuple[int, int]


class StepCounts:
    """What each step did, by the versions that it leads from and to."""

    def __init__(self) -> None:
        self.kept = defaultdict[Crossing, Counter[str]](Counter)
        self.rewritten = defaultdict[Crossing, Counter[Rewritten]](Counter)

    def add_rows(self, answers: Collection[Answer]) -> None:
        """Adds the nodes of the graph, of which many have one answer."""
        kinds = {id(answer): answer for answer in answers}
        for which, count in Counter(map(id, answers)).items():
            for boundary, op, n in kinds[which].kept:
                self.kept[boundary[2:]][op] += n * count
            for boundary, kind, n in kinds[which].rewritten:
                self.rewritten[boundary[2:]][kind] += n * count

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
            yield step_report(Step("", *at, self.rewritten[at], self.kept[at]))
