# SPDX-License-Identifier: Apache-2.0
"""Finds the farthest version that each operator version can reach, in a graph of conversions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, cast

from opshift.convert.plan_table import LAST, Edge
from opshift.errors import MissingExtra

if TYPE_CHECKING:
    import networkx as nx

Place = tuple[str, str, int]  # (domain, op, since), or the key of an IR feature


def library() -> ModuleType:
    """Returns networkx, which is imported late because the import takes 0.1 seconds."""
    try:
        import networkx
    except ImportError:
        raise MissingExtra(
            "networkx, which plans conversions, is not installed; install it: pip install networkx"
        ) from None
    return cast(ModuleType, networkx)


def solve(graph: nx.DiGraph, end: int, *, down: bool) -> Iterator[tuple[Place, Edge]]:
    """Yields each operator version with its `Edge` and the farthest version, at most `end`."""
    best, reach = (min if down else max), dict[object, int]()
    for place in reversed(list(library().topological_sort(graph))):
        after = [reach[next_place] for next_place in graph.successors(place)]
        if isinstance(place[1], Edge):
            here, edge = place
            outside = len(after) < len(edge.writes)
            far = edge.start if edge.dead else end if outside or not after else best(after)
            reach[place] = far
            yield here, replace(edge, reach=far)
        else:
            reach[place] = after[0] if after else end
            if not after:
                yield place, Edge(place[2], place[2], LAST, False, (), end)
