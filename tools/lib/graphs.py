# SPDX-License-Identifier: Apache-2.0
"""Walks over graphs for tools that judge conversions: without opshift, which is under judgement."""

from __future__ import annotations

from collections.abc import Iterator

from onnx import GraphProto, NodeProto


def graphs_of(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs that a node holds."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def graphs_in(graph: GraphProto) -> Iterator[GraphProto]:
    """A graph, and every graph inside it at any depth."""
    yield graph
    for node in graph.node:
        for inner in graphs_of(node):
            yield from graphs_in(inner)


def nodes_in(graph: GraphProto) -> Iterator[NodeProto]:
    """The nodes of a graph and of the graphs in it."""
    for node in graph.node:
        yield node
        for inner in graphs_of(node):
            yield from nodes_in(inner)


def unread(graph: GraphProto) -> Iterator[NodeProto]:
    """The unread nodes of a graph, without those of its subgraphs."""
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
