# SPDX-License-Identifier: Apache-2.0
"""Cycles of a graph are found, and each edge is followed once."""

from __future__ import annotations

import random

import networkx as nx
import pytest
from growth_families import FAMILIES
from opshift import check
from opshift.model.cycles import cycles
from text_models import model


@pytest.mark.parametrize("seed", range(60))
def test_the_cycles_are_those_of_networkx(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randint(1, 12)
    edges = {i: [rng.randrange(count + 2) for _ in range(rng.randint(0, 3))] for i in range(count)}
    graph = nx.DiGraph([(a, b) for a, found in edges.items() for b in found if b in edges])
    wanted = {
        frozenset(component)
        for component in nx.strongly_connected_components(graph)
        if len(component) > 1 or any(graph.has_edge(item, item) for item in component)
    }
    assert {frozenset(cycle) for cycle in cycles(edges)} == wanted


def test_a_chain_of_any_length_needs_no_stack() -> None:
    edges = {i: [i + 1] for i in range(50_000)}
    assert not [*cycles(edges)]
    (found,) = cycles({**edges, 50_000: [0]})
    assert len(found) == 50_001


def definitions(made) -> list[str]:
    return [finding.text for finding in check(made).found if finding.rule == "DEFINITION"]


def test_each_cycle_is_told_once_with_a_shortest_way() -> None:
    text = "(float[2] x) => (float[2] y) { a = Add(x, c) b = Neg(a) c = Add(b, a) d = Neg(e) e = Neg(d) y = Add(c, e) }"
    assert definitions(model(text)) == [
        "the graph has a cycle: c -> a -> c",
        "the graph has a cycle: e -> d -> e",
    ]


def test_a_long_cycle_shows_its_ends() -> None:
    (told,) = definitions(FAMILIES["nodes in a cycle"](100))
    assert told.startswith("the graph has a cycle: v100 -> ")
    assert told.endswith(" -> v100")
    assert " ... " in told
    assert len(told) < 150


def test_a_node_in_the_wrong_order_is_in_no_cycle() -> None:
    found = definitions(FAMILIES["nodes in the wrong order"](30))
    assert len(found) == 29
    assert all("sort the nodes" in one for one in found)
