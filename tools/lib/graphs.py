# SPDX-License-Identifier: Apache-2.0
"""Walks over graphs without opshift, for tools that judge the conversions of opshift."""

from __future__ import annotations

from collections.abc import Iterator

from onnx import GraphProto, NodeProto


def graphs_of(node: NodeProto) -> Iterator[GraphProto]:
    """Yields the subgraphs of a node."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def graphs_in(graph: GraphProto) -> Iterator[GraphProto]:
    """Yields a graph, and every subgraph in it at any depth."""
    yield graph
    for node in graph.node:
        for inner in graphs_of(node):
            yield from graphs_in(inner)


def nodes_in(graph: GraphProto) -> Iterator[NodeProto]:
    """Yields the nodes of a graph and of its subgraphs."""
    for node in graph.node:
        yield node
        for inner in graphs_of(node):
            yield from nodes_in(inner)


def unread(graph: GraphProto) -> Iterator[NodeProto]:
    """Yields the nodes of a graph on which no output depends, but no nodes of subgraphs."""
    producers = {name: i for i, node in enumerate(graph.node) for name in node.output if name}
    waiting, needed = [output.name for output in graph.output], set()
    while waiting:
        place = producers.get(waiting.pop())
        if place is not None and place not in needed:
            needed.add(place)
            waiting += _reads(graph.node[place])
    yield from (node for i, node in enumerate(graph.node) if i not in needed)


def _reads(node: NodeProto) -> Iterator[str]:
    yield from node.input
    for graph in graphs_of(node):
        for inner in graph.node:
            yield from _reads(inner)
        yield from (output.name for output in graph.output)
