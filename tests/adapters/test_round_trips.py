# SPDX-License-Identifier: Apache-2.0
"""An example computes the same after a conversion there and back, and at the most distant opset."""

from __future__ import annotations

import os
import random

import pytest
from opshift import Refused, convert_version
from opshift.opsets import schemas

import examples

CASES = [
    case
    for case in examples.cases()
    if case.example.refuses is None
    and case.example.invalid is None
    and not case.example.approximate
    and case.adapter.at_boundary
]
EVERY = "OPSHIFT_PROPERTIES" in os.environ
"""Whether all examples are tried; else one of each adapter there and back, and some far."""
NEAR = CASES if EVERY else list({id(case.adapter): case for case in CASES}.values())
FAR = CASES if EVERY else random.Random(1).sample(CASES, min(30, len(CASES)))


def reached(model, domain, version):
    """Converts a model to a version, or to the nearest version that can be reached."""
    try:
        return convert_version(model, {domain: version})
    except Refused as refused:
        near = refused.nearest[domain]
        return convert_version(model, {domain: near})


def same_numbers(case, before, after):
    return examples.difference(case, before, after, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", NEAR, ids=[case.id for case in NEAR])
def test_there_and_back(case):
    """No example contains the result of an adapter, which the opposite adapter must convert."""
    if examples.too_new(case):
        pytest.skip("the installed onnx is older than the example")
    before = examples.model_of(case)
    there = convert_version(before, {case.adapter.domain: case.adapter.to})
    try:
        back = convert_version(there, {case.adapter.domain: case.adapter.start})
    except Refused:
        return  # the way back may lack what the way there dropped; a refusal is an answer
    assert same_numbers(case, before, back) is None


@pytest.mark.parametrize("case", FAR, ids=[case.id for case in FAR])
def test_as_far_as_it_goes(case):
    """Only a conversion over several opsets passes the nodes of one adapter to the next."""
    if examples.too_new(case):
        pytest.skip("the installed onnx is older than the example")
    domain = case.adapter.domain
    before = examples.model_of(case)
    newest = schemas.latest(domain) or 1
    for end in (newest, *(version for version in (13, 9, 7, 1) if version < newest)):
        assert same_numbers(case, before, reached(before, domain, end)) is None
