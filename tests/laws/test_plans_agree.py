# SPDX-License-Identifier: Apache-2.0
"""Law: a plan and the conversion agree, and dead ends are known before anything is converted."""

from __future__ import annotations

import os
import random

import agree
import pytest
from opshift.author import registry
from opshift.convert import planner
from opshift.look.plan import Plan
from opshift.model.document import Document
from opshift.opsets import schemas
from text_models import model

import examples

SEED, SAMPLE, DEAD = 20261122, int(os.environ.get("OPSHIFT_PLANS", "30")), 200
STOPPED = "(string[2] x) => (string[2,K] y, int64[2] n) { y, n = StringSplit(x) }"


def cases(count: int) -> list[agree.Trip]:
    """Some examples of any adapter, each to one of its targets."""
    rng, newest = random.Random(SEED), schemas.latest("") or 0
    fit = [case for case in examples.cases() if not examples.too_new(case)]
    targets = [to for to in agree.TARGETS if to <= newest]
    given = [agree.trip_of(case.adapter, case.example) for case in rng.sample(fit, count)]
    return [rng.choice(list(agree.of_example(case, targets))) for case in given]


def test_a_plan_and_the_conversion_agree():
    told = {case.name: agree.broken(case) for case in cases(SAMPLE)}
    assert not {name: found for name, found in told.items() if found}
    assert sum(found is not None for found in told.values()) > SAMPLE // 2


def test_dead_ends_are_known_before_anything_is_converted():
    told = {case.name: agree.broken(case, alone=True) for case in cases(DEAD)}
    assert not {name: found for name, found in told.items() if found}
    assert sum(found is not None for found in told.values()) > DEAD // 2


def test_a_plan_that_says_something_else_is_seen(monkeypatch):
    trip = agree.Trip("a test", model(STOPPED, 20), 18)
    assert agree.broken(trip) == []
    monkeypatch.setattr(Plan, "possible", property(lambda self: bool(self.refusals)))
    found = agree.broken(trip) or [""]
    assert found[0].startswith("the plan says True, and the conversion is")


def test_a_dead_end_that_is_none_and_one_that_was_not_known_are_seen(monkeypatch):
    trip = agree.Trip("a test", model(STOPPED, 20), 18)
    known_dead_ends = agree.known_dead_ends
    monkeypatch.setattr(agree, "known_dead_ends", lambda *given: ({}, known_dead_ends(*given)[1]))
    assert agree.broken(trip) == [
        "StringSplit is stopped by an impossible verdict, and no dead end was known"
    ]
    dead = {("", "Relu"): "Relu 14->13"}
    monkeypatch.setattr(agree, "known_dead_ends", lambda *given: (dead, set()))
    easy = agree.Trip("a test", model("(float[2] x) => (float[2] y) { y = Relu(x) }", 14), 13)
    assert agree.broken(easy) == [
        "the plan knew no way for Relu 14->13, and the conversion found one"
    ]


@pytest.mark.parametrize("goal", [11, 22])
def test_the_way_of_an_operator_that_stands_before_its_birth_begins_there(goal):
    """ThresholdedRelu came with opset 10, but old exporters used it at lower opsets."""
    early = model("(float[2] x) => (float[2] y) { y = ThresholdedRelu<alpha = 0.5>(x) }", 8)
    plan = planner.of_document(Document(early), registry.default(), {"": goal})
    boundaries = [at[2:] for at in plan.edges if at[1] == "ThresholdedRelu" and at[2]]
    assert boundaries == ([(21, 22)] if goal == 22 else [])
