# SPDX-License-Identifier: Apache-2.0
"""A conversion adds no finding of `opshift check`, over a sample of corpus and examples."""

from __future__ import annotations

import random

import pytest
from opshift import check_model
from text_models import model

import examples
from tools.corpus import findings

SAMPLE, SEED = 120, 5


def test_examples():
    readable = [case for case in examples.cases() if not examples.too_new(case)]
    told = {}
    for case in random.Random(SEED).sample(readable, SAMPLE):
        _, proto, to, loose = findings.case_of(case.adapter, case.example)
        told[case.id] = findings.added(proto, to, approximate=loose)
    assert sum(found is not None for found in told.values()) > SAMPLE // 2
    assert not {name: found for name, found in told.items() if found}


def test_corpus():
    if not (cases := findings.corpus((21, 13, 9))):
        pytest.skip("there is no corpus")
    chosen = random.Random(SEED).sample(cases, 12)
    assert not {name: told for name, m, to, _ in chosen if (told := findings.added(m, to))}


def test_an_added_finding_is_seen():
    before = model("(float[2] x) => (float[2] y) { y = Neg(x) }")
    after = model("(float[2] x) => (float[2] y) { y = Neg(x) }")
    after.graph.node[0].name = "a/b"
    (one,) = check_model(after).beyond(check_model(before))
    assert one.rule == "NODE_IDENTIFIER"
    assert check_model(before).beyond(check_model(after)) == ()
    assert check_model(after).beyond(check_model(after)) == ()
