"""Nodes in the order in which they can run, for graphs whose exporter did not care."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto

from opshift.model.scope import Container, graphs_of


def repair(model: ModelProto) -> bool:
    """Sorts every graph that is out of order, keeping the order of what is free; says if any was.

    Graphs with a cycle are left as they are: the checker's objection stands.
    """
    tops: list[Container] = [model.graph, *model.functions]
    return any(_repair(top) for top in tops)


def _repair(container: Container) -> bool:
    nested = [_repair(graph) for node in container.node for _, graph in graphs_of(node)]
    order = sorted_positions(container)
    if order is None or order == list(range(len(order))):
        return any(nested)
    rank = {position: i for i, position in enumerate(order)}
    positions = iter(range(len(order)))
    container.node.sort(key=lambda _: rank[next(positions)])
    return True


def sorted_positions(container: GraphProto | FunctionProto) -> list[int] | None:
    """Positions of the nodes in an order that runs, smallest first; None with a cycle."""
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


def reads(node: NodeProto) -> Iterator[str]:
    """The names a node reads, and those that its subgraphs capture."""
    yield from node.input
    for _, graph in graphs_of(node):
        own = {held.name for field in (graph.input, graph.initializer) for held in field}
        own.update(sparse.values.name for sparse in graph.sparse_initializer)
        for inner in graph.node:
            yield from (name for name in reads(inner) if name not in own)
            own.update(inner.output)
        yield from (output.name for output in graph.output if output.name not in own)
