# SPDX-License-Identifier: Apache-2.0
"""Finds the cycles of a directed graph, and an order of its items."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import TypeVar

_Item = TypeVar("_Item", bound=Hashable)


def cycles(edges: Mapping[_Item, Iterable[_Item]]) -> Iterator[set[_Item]]:
    """Yields each largest set of items that can reach each other; one item must reach itself."""
    for component in components(edges):
        if len(component) > 1 or any(item in edges[item] for item in component):
            yield component


def components(edges: Mapping[_Item, Iterable[_Item]]) -> list[set[_Item]]:
    """Returns the largest sets of items that reach each other, each after the sets it reaches."""
    try:
        return [{item} for item in TopologicalSorter(edges).static_order() if item in edges]
    except CycleError:
        import networkx as nx  # only now, because its import takes longer than most conversions

        graph = nx.DiGraph()
        graph.add_nodes_from(edges)
        graph.add_edges_from((a, b) for a, reached in edges.items() for b in reached if b in edges)
        return list(nx.strongly_connected_components(graph))
