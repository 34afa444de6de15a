# SPDX-License-Identifier: Apache-2.0
"""Conversions up succeed; conversions down succeed or give a reason; the way back is equal."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import effort
from hypothesis import event, reject
from hypothesis import strategies as st
from onnx import ModelProto, printer
from opshift import Refused, convert_version
from opshift.author import registry
from opshift.codes.refusals import Why
from opshift.convert.legal import checker
from opshift.errors import RefusedNode
from opshift.opsets import schemas
from opshift.verify import oracle
from opshift.verify.tolerance import StatedTolerance

from families.making import Family, Making
from families.placing import place

# Upgrades of what is made up here that have no exact form: operator, boundary.
IMPOSSIBLE_UP = {
    ("LpPool", (1, 2)): "a fractional p",
    ("GlobalLpPool", (1, 2)): "a fractional p",
    ("Pad", (1, 2)): "the layout of asymmetric paddings is in doubt",
    ("BatchNormalization", (6, 7)): "statistics of the batch with one output",
    ("BatchNormalization", (13, 14)): "saved_var, about which text and runtimes disagree",
    ("Resize", (12, 13)): "tf_half_pixel_for_nn with a rounding that no other mode has",
}
LONG = 2000 if effort.wanted else 100  # nodes: so long a result is not taken back


@dataclass(frozen=True)
class Case:
    """A legal model, its inputs, its version and a target version."""

    op: str
    domain: str
    opset: int
    to: int
    model: ModelProto
    feeds: dict[str, Any] = field(repr=False)
    expected: list[Any] = field(repr=False)

    def __repr__(self) -> str:
        text = printer.to_text(self.model)
        return f"{self.domain}.{self.op} {self.opset} -> {self.to}\n{text}\n{self.feeds}"

    def _repr_pretty_(self, printing: Any, _cycle: bool) -> None:
        """The form in which hypothesis prints the case."""
        printing.text(repr(self))


@dataclass
class Tally:
    """Counts the outcomes of a family."""

    counts: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)

    def add(self, op: str, end: str) -> None:
        self.counts[end] += 1
        event(f"{op}: {end}")


def known(family: Family) -> list[tuple[str, str]]:
    """The operators of a family that the installed onnx has."""
    return [key for key in sorted(family) if schemas.history(*key)]


@st.composite
def cases(draw: Any, family: Family, tally: Tally) -> Case:
    """Draws one operator of a family in its own model, which the checker and the runtime accept."""
    domain, op = draw(st.sampled_from(known(family)))
    recipe = family[domain, op]
    newest = schemas.latest(domain) or 1
    opset = draw(st.sampled_from(_versions(domain, op, newest)))
    m = Making(draw, op, opset, domain)
    tally.counts["drawn"] += 1
    recipe(m)
    try:
        model, feeds = place(m)
        expected = oracle.evaluate(model, feeds)
    except oracle.OracleError as error:
        tally.add(op, f"discarded, {str(error)[:60]}")
        reject()
    objection = checker.whole(model, registry.default(), full=True)
    if objection is not None:
        tally.add(op, f"discarded, {objection[:60]}")
        reject()
    to = draw(st.sampled_from([v for v in range(1, newest + 1) if v != opset] or [opset]))
    return Case(op, domain, opset, to, model, feeds, expected)


def _versions(domain: str, op: str, newest: int) -> list[int]:
    """Returns versions of an operator for a draw; those at a change of it occur more often."""
    history = schemas.history(domain, op)
    alive = [v for v in range(history[0].since, newest + 1) if _alive(domain, op, v)]
    ends = [s.since - 1 for s in history[1:]]
    return (
        alive
        + [v for s in history for v in (s.since, s.since) if v in alive]
        + [v for v in ends if v in alive]
    )


def _alive(domain: str, op: str, version: int) -> bool:
    schema = schemas.schema(domain, op, version)
    return schema is not None and not schema.deprecated


def hold(case: Case, tally: Tally) -> None:
    """Converts to the other version and back; each result is equal, or refused."""
    tally.counts["tried"] += 1
    up = case.to > case.opset
    direction = "up" if up else "down"
    try:
        there = convert_version(case.model, {case.domain: case.to})
    except Refused as refused:
        tally.add(case.op, f"{direction} refused")
        for one in refused.refusals:
            tally.refusals[str(one)] += 1
        assert not up or all(_may_refuse_up(refusal) for refusal in refused.refusals), str(refused)
        return
    _equal(case, there, f"{case.opset} -> {case.to}")
    tally.add(case.op, f"{direction} equal")
    if len(there.graph.node) > LONG:
        tally.add(case.op, "too long to take back")
        return
    try:
        back = convert_version(there, {case.domain: case.opset})
    except Refused as refused:
        tally.add(case.op, "back refused")
        assert up or all(_may_refuse_up(refusal) for refusal in refused.refusals), (
            f"back: {refused}"
        )
        return
    _equal(case, back, f"{case.opset} -> {case.to} -> {case.opset}")


def _may_refuse_up(one: RefusedNode) -> bool:
    return (one.op, one.boundary) in IMPOSSIBLE_UP and one.why in (
        Why.NOT_EXPRESSIBLE, Why.AMBIGUOUS, Why.NEEDS_CONSTANT, Why.APPROXIMATE_ONLY,
    )  # fmt: skip


def _equal(case: Case, model: ModelProto, way: str) -> None:
    objection = checker.whole(model, registry.default(), full=True)
    assert objection is None, f"{way}: {objection}"
    if oracle.doubtful(case.model, model):
        return
    try:
        actual = oracle.evaluate(model, case.feeds)
    except oracle.OracleError as error:
        raise AssertionError(f"{way}: {error}") from error
    assert len(actual) == len(case.expected), f"{way}: another number of outputs"
    for place_, (one, other) in enumerate(zip(case.expected, actual, strict=True)):
        t = StatedTolerance().at(one)
        difference = oracle.compare([one], [other], rtol=t.rtol, atol=t.atol, ulp=t.ulp)
        assert difference is None, f"{way}: result {place_}: {difference}"
