# SPDX-License-Identifier: Apache-2.0
"""Nodes that hold graphs: without the names inside, equal ones are of one class."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from opshift.convert.classes import frames
from opshift.convert.classes.frames import Frame, filled, take_apart
from opshift.convert.classes.rows import ABSENT, Signature, Unproven
from opshift.model.illegible import illegible
from opshift.model.walk import defined_names, graphs_in, graphs_of, nodes_inside
from opshift.model.weights.store import Weights
from opshift.protos import GraphProto, NodeProto, TensorProto, ValueInfoProto

Renamed = Callable[[str], str]


class Nested(NamedTuple):
    """A node that holds graphs, without its names."""

    signature: Signature
    captures: list[bytes]  # the values around it that its graphs read
    names: list[bytes]  # the names inside, which the signature calls n0, n1, and so on
    values: frozenset[bytes]  # those that its graphs define
    graphs: list[bytes]  # the names of its graphs
    titles: list[bytes]  # the names of the nodes in them
    nodes: int  # in its graphs
    noted: bool  # whether something in them has metadata


def holds_graphs(signature: Signature) -> bool:
    """Whether a node with this signature may hold graphs."""
    return frames.holds_graphs(signature[0])


def nested(signature: Signature) -> Nested:
    """A node that holds graphs, with its names taken out."""
    raw, given, results, _ = signature
    frame, names = take_apart(raw)
    index: dict[bytes, int] = {}
    found = _without_names(
        frame, tuple([index.setdefault(name, len(index)) for name in names]), given, results
    )
    known = list(index)
    return Nested(
        found.signature,
        [known[i] for i in found.captures],
        [known[i] for i in found.names],
        frozenset([known[i] for i in found.values]),
        [known[i] for i in found.graphs],
        [known[i] for i in found.titles],
        found.nodes,
        found.noted,
    )


class _Numbered(NamedTuple):
    """What `Nested` tells, with a number in place of each name."""

    signature: Signature
    captures: list[int]
    names: list[int]
    values: list[int]
    graphs: list[int]
    titles: list[int]
    nodes: int
    noted: bool


@functools.lru_cache(maxsize=1024)
def _without_names(frame: Frame, pattern: tuple[int, ...], given: int, results: int) -> _Numbered:
    """What is known of all nodes with this frame whose names are equal in the same places."""
    raw = filled(frame, (b"%d" % number for number in pattern))
    node = NodeProto.FromString(raw)
    if illegible(node):
        raise Unproven("a text that is no UTF-8")
    graphs = [graph for _, graph in graphs_of(node)]
    values = {name for graph in graphs for name in defined_names(graph)} - {""}
    own = given & (1 << ABSENT) - 1
    inside: dict[str, str] = {}
    captures: dict[str, str] = {}
    called: list[str] = []
    titles: list[str] = []
    noted = False

    def token(name: str) -> str:
        return inside.setdefault(name, f"n{len(inside)}")

    def read(name: str) -> str:
        if name in values:
            return token(name)
        return captures.setdefault(name, f"i{own + len(captures)}")

    for graph in graphs:
        for one in graphs_in(graph):
            _require_plain(one, values)
            noted |= _has_notes(one)
            called.append(one.name)
            titles += [held.name for held in one.node if held.name]
    count = sum(1 for _ in nodes_inside(node))
    rename(node, token, read)
    key = (node.SerializeToString(deterministic=True), given, results, len(captures))
    return _Numbered(
        key,
        _numbers(captures),
        _numbers(inside),
        _numbers(values),
        _numbers(called),
        _numbers(titles),
        count,
        noted,
    )


def _numbers(names: Iterable[str]) -> list[int]:
    """The numbers that stand for names; a graph of another kind keeps its own."""
    try:
        return list(map(int, names))
    except ValueError:
        raise Unproven from None


def _require_plain(graph: GraphProto, values: Collection[str]) -> None:
    """What is rare in a graph inside a node goes node by node."""
    if graph.sparse_initializer or graph.quantization_annotation or not graph.name:
        raise Unproven("a rare part of a graph inside of a node")
    if not all(one.name in values for one in graph.value_info):
        raise Unproven("a declaration inside of a node")
    if any(map(Weights.is_stub, graph.initializer)):
        raise Unproven("a payload inside of a node")
    for node in graph.node:
        if getattr(node, "device_configurations", ()):
            raise Unproven("a rare part of a graph inside of a node")
        for one in node.attribute:
            if one.ref_attr_name or one.HasField("sparse_tensor") or Weights.is_stub(one.t):
                raise Unproven("a rare part of a graph inside of a node")


def _has_notes(graph: GraphProto) -> bool:
    held = (*graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer)
    return any(getattr(one, "metadata_props", ()) for one in (graph, *held))


def rename(node: NodeProto, token: Renamed, read: Renamed) -> None:
    """Gives other names to all that has one inside a node; `read` is asked for values read."""
    for _, graph in graphs_of(node):
        _rename_graph(graph, token, read)


def _rename_graph(graph: GraphProto, token: Renamed, read: Renamed) -> None:
    graph.name = token(graph.name)
    if graph.doc_string:
        graph.doc_string = token(graph.doc_string)
    for node in graph.node:
        for i, name in enumerate(node.input):
            if name:
                node.input[i] = read(name)
        for i, name in enumerate(node.output):
            if name:
                node.output[i] = token(name)
        if node.name:
            node.name = token(node.name)
        if node.doc_string:
            node.doc_string = token(node.doc_string)
        if node.attribute:
            rename(node, token, read)
    for output in graph.output:
        output.name = read(output.name)
    for tensor in graph.initializer:
        tensor.name = token(tensor.name)
    for info in (*graph.input, *graph.value_info):
        info.name = token(info.name)
    described: list[TensorProto | ValueInfoProto] = [*graph.initializer, *graph.input]
    for one in (*described, *graph.output, *graph.value_info):
        if one.doc_string:
            one.doc_string = token(one.doc_string)
