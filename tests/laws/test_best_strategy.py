# SPDX-License-Identifier: Apache-2.0
"""Law: the chosen strategy has the fewest approximations, lost functions and nodes, in this order.

The first of the three counts in which two strategies differ decides.
"""

from __future__ import annotations

import itertools
import os

import best_strategies as law
import pytest
from opshift.convert import strategies
from opshift.convert.request import Request
from opshift.opsets import schemas
from text_models import model

SEED, SAMPLE = 20261123, int(os.environ.get("OPSHIFT_STRATEGIES", "6"))


@pytest.mark.parametrize(
    ("leave", "place"), [(False, None), (True, None), (False, "function"), (False, "functions")]
)
def test_the_chosen_strategy_is_the_best(leave, place):
    cases = law.examples(SEED, leave=leave, place=place)
    found = {
        title: law.broken(proto, wanted) for title, proto, wanted in itertools.islice(cases, SAMPLE)
    }
    assert not {title for title, (_, told) in found.items() if told}
    several = sum(count > 1 for count, _ in found.values())
    assert several or not (leave or place)


def test_a_function_lost_for_fewer_nodes_is_seen(monkeypatch):
    """The law knows that functions cost more than nodes, and tries each function."""
    text = """(float[2,3] x, int64[1] a) => (float[b,c] y) { q = com.own.G() y = ReduceSum(x, q) }
        <domain: "com.own", opset_import: ["": 13]> G () => (y) {
            y = Constant<value = int64[1] {1}>() }"""
    calling = model(text, 13, ir=8, more=', "com.own": 1')
    count, told = law.broken(calling, Request.of(12))
    assert (count > 1, told) == (True, [])
    monkeypatch.setattr(law, "_cost", lambda before, after, report: len(after.graph.node))
    assert law.broken(calling, Request.of(12))[1]


def test_the_chosen_strategy_of_a_model_is_the_best():
    cases = list(itertools.islice(law.corpus(SEED), 6))
    if not cases:
        pytest.skip("there is no corpus")
    assert not {title: told for title, *case in cases if (told := law.broken(*case)[1])}


@pytest.mark.skipif((schemas.latest("") or 0) < 20, reason="the installed onnx is older")
def test_a_strategy_that_is_not_the_best_is_seen(monkeypatch):
    text = "(float[2] x) => (float[2] y) { y = com.microsoft.Gelu(x) }"
    vendor = model(text, 17, more=', "com.microsoft" : 1')
    wanted = Request.of(20, domains=["ai.onnx"])
    assert law.broken(vendor, wanted) == (2, [])
    monkeypatch.setattr(strategies.Reached, "cost", property(lambda self: -self.nodes))
    count, told = law.broken(vendor, wanted)
    assert (count, len(told)) == (2, 1)
