# SPDX-License-Identifier: Apache-2.0
"""Sorts the nodes of graphs that are not in topological order."""

from __future__ import annotations

import heapq

from opshift.model.walk import Container, containers, reads
from opshift.protos import ModelProto

SORTED = "sorted the nodes, which were not in topological order"


def repair(model: ModelProto) -> bool:
    """Sorts every unsorted graph and function; returns whether any of them was unsorted.

    Nodes that can stay in their order keep it. A graph with a cycle is not changed, so that onnx's
    checker reports it.
    """
    inner_first = reversed(list(containers(model)))  # inner first: sorting needs their captures
    return sum([_repair(container) for container in inner_first]) > 0


def _repair(container: Container) -> bool:
    order = sorted_positions(container)
    if order is None or order == list(range(len(order))):
        return False
    rank = {position: i for i, position in enumerate(order)}
    positions = iter(range(len(order)))
    container.node.sort(key=lambda _: rank[next(positions)])
    return True


def sorted_positions(container: Container) -> list[int] | None:
    """Returns the positions of nodes in topological order, lowest first; None for a cycle."""
    writers = {name: i for i, node in enumerate(container.node) for name in node.output if name}
    waits_for = [
        {writers[name] for name in reads(node) if name in writers} for node in container.node
    ]
    readers: dict[int, list[int]] = {}
    for i, needed in enumerate(waits_for):
        for writer in needed:
            readers.setdefault(writer, []).append(i)
    ready = [i for i, needed in enumerate(waits_for) if not needed]
    order = []
    while ready:
        position = heapq.heappop(ready)
        order.append(position)
        for reader in readers.get(position, ()):
            waits_for[reader].discard(position)
            if not waits_for[reader]:
                heapq.heappush(ready, reader)
    return order if len(order) == len(waits_for) else None
