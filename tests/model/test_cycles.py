# SPDX-License-Identifier: Apache-2.0
"""Cycles of a graph are found, and each edge is followed once."""

from __future__ import annotations

import random

import networkx as nx
import pytest
from growth_families import FAMILIES
from opshift import check
from opshift.model.cycles import components, cycles
from text_models import model


@pytest.mark.parametrize("seed", range(60))
def test_a_component_has_the_items_that_reach_each_other(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randint(1, 12)
    edges = {i: [rng.randrange(count + 2) for _ in range(rng.randint(0, 3))] for i in range(count)}
    graph = nx.DiGraph([(a, b) for a, found in edges.items() for b in found if b in edges])
    graph.add_nodes_from(edges)
    reached = {item: nx.descendants(graph, item) for item in edges}
    around = {a: frozenset({a, *(b for b in reached[a] if a in reached[b])}) for a in edges}
    circular = {around[a] for a in edges if len(around[a]) > 1 or a in edges[a]}
    assert {frozenset(cycle) for cycle in cycles(edges)} == circular
    before: set[int] = set()
    for component in components(edges):
        assert all(around[item] == component for item in component)
        assert all(reached[item] <= before | component for item in component)
        before |= component
    assert before == edges.keys()


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
