# SPDX-License-Identifier: Apache-2.0
"""Operators with computed bounds need few nodes at the lowest opsets."""

from __future__ import annotations

import pytest
from onnx import GraphProto
from opshift import convert_version
from text_models import model

SLICE = "(float[N,5] x, int64[2] s, int64[2] e) => (float[a,b] y) { y = Slice(x, s, e) }"
PAD = "(float[N,5] x, int64[4] p) => (float[a,b] y) { y = Pad(x, p) }"
WHERE = "(float[N,5] x) => (int64[2] y) <int64[2] c = {4, 4}> { s = Shape(x) l = Less(s, c) y = Where(l, s, c) }"


@pytest.mark.parametrize(
    ("body", "target", "most"), [(SLICE, 1, 900), (PAD, 5, 400), (WHERE, 5, 20)]
)
def test_computed_bounds_take_few_nodes(body: str, target: int, most: int) -> None:
    assert _count(convert_version(model(body, 13), target).graph) <= most


def _count(graph: GraphProto) -> int:
    """Counts the nodes of a graph, including its subgraphs."""
    inside = (a.g for node in graph.node for a in node.attribute if a.HasField("g"))
    return len(graph.node) + sum(map(_count, inside))
