# SPDX-License-Identifier: Apache-2.0
"""A conversion adds no finding of `opshift check`, over a sample of corpus and examples (OPSHIFT_FINDINGS)."""

from __future__ import annotations

import os
import random
from pathlib import Path

import agree
import pytest
from opshift import OpshiftError, check, convert_version
from text_models import model

import examples

SAMPLE, SEED = int(os.environ.get("OPSHIFT_FINDINGS", "60")), 5


def added(trip: agree.Trip) -> list[str] | None:
    """The findings that only the result has; None if there is no result."""
    try:
        result = convert_version(trip.model, trip.target, allow_approximate=trip.approximate)
    except OpshiftError:
        return None
    source = str(trip.model) if isinstance(trip.model, Path) else trip.model
    return [f"{one.rule}: {one}" for one in check(result).beyond(check(source))]


def test_examples():
    readable = [case for case in examples.cases() if not examples.too_new(case)]
    told = {}
    for case in random.Random(SEED).sample(readable, SAMPLE):
        told[case.id] = added(agree.trip_of(case.adapter, case.example))
    assert sum(found is not None for found in told.values()) > SAMPLE // 2
    assert not {name: found for name, found in told.items() if found}


def test_corpus():
    if not (trips := agree.corpus((21, 13, 9))):
        pytest.skip("there is no corpus")
    chosen = random.Random(SEED).sample(trips, min(SAMPLE // 10, len(trips)))
    assert not {trip.name: told for trip in chosen if (told := added(trip))}


def test_an_added_finding_is_seen():
    before = model("(float[2] x) => (float[2] y) { y = Neg(x) }")
    after = model("(float[2] x) => (float[2] y) { y = Neg(x) }")
    after.graph.node[0].name = "a/b"
    (one,) = check(after).beyond(check(before))
    assert one.rule == "NODE_IDENTIFIER"
    assert check(before).beyond(check(after)) == ()
    assert check(after).beyond(check(after)) == ()
