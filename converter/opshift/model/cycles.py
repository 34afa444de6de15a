# SPDX-License-Identifier: Apache-2.0
"""Finds the cycles of a directed graph, and an order of its items."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

_Item = TypeVar("_Item", bound=Hashable)


def cycles(edges: Mapping[_Item, Iterable[_Item]]) -> Iterator[set[_Item]]:
    """Yields each largest set of items that can reach each other; one item must reach itself."""
    for component in components(edges):
        if len(component) > 1 or any(item in edges[item] for item in component):
            yield component


def components(edges: Mapping[_Item, Iterable[_Item]]) -> Iterator[set[_Item]]:
    """Yields each largest set of items that can reach each other, after the sets that it reaches.

    The function uses Tarjan's algorithm without recursion, which follows every edge once.
    """
    number: dict[_Item, int] = {}
    lowest: dict[_Item, int] = {}
    path: list[_Item] = []
    on_path: set[_Item] = set()
    for start in edges:
        waiting = [] if start in number else [(start, iter(edges[start]))]
        while waiting:
            item, rest = waiting[-1]
            if item not in number:
                number[item] = lowest[item] = len(number)
                path.append(item)
                on_path.add(item)
            for successor in rest:
                if successor in edges and successor not in number:
                    waiting.append((successor, iter(edges[successor])))
                    break
                if successor in on_path:
                    lowest[item] = min(lowest[item], number[successor])
            else:
                waiting.pop()
                if waiting:
                    above = waiting[-1][0]
                    lowest[above] = min(lowest[above], lowest[item])
                if lowest[item] == number[item]:
                    visited = set[_Item]()
                    while item not in visited:
                        visited.add(path.pop())
                    on_path -= visited
                    yield visited
