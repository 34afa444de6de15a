# SPDX-License-Identifier: Apache-2.0
"""Bounds the outputs of operators that only move elements."""

from __future__ import annotations

from collections.abc import Sequence

from opshift.author.bounds import MOST_EACH, Bounds, for_all
from opshift.author.env import Delegating
from opshift.author.node import Env, Node, Value
from opshift.author.traits import Fold
from opshift.lazy import numpy as np
from opshift.model.arrays import Array


class _Positions(Delegating):
    """An environment in which the elements of some values are replaced by their positions."""

    def __init__(self, env: Env, positions: dict[str, Array]) -> None:
        super().__init__(env)
        self.given = positions

    def constant(self, name: str) -> Array | None:
        return self.given[name] if name in self.given else self.env.constant(name)

    def why_dynamic(self, name: str) -> str:
        return f"{name!r} is computed by a node"


def moved(node: Node, data: Sequence[Value]) -> Bounds:
    """Returns the bounds of the output of an operator that only moves elements of these inputs.

    Folding the operator on the positions of the elements shows where each element goes.
    """
    bounds = [value.bounds for value in data]
    if all(bound.each for bound in bounds):
        positions, lows, highs = {}, [], []
        count = 0
        for value, one in zip(data, bounds, strict=True):
            size = one.low.size
            positions[value.name] = np.arange(count, count + size).reshape(one.low.shape)
            lows.append(one.low.ravel())
            highs.append(one.high.ravel())
            count += size
        places = _folded(node, positions, len(data))
        if places is not None and places.size <= MOST_EACH:
            low, high = (np.concatenate(parts)[places.ravel()] for parts in (lows, highs))
            return Bounds(low.reshape(places.shape), high.reshape(places.shape), each=True)
    return for_all(min(bound.lowest for bound in bounds), max(bound.highest for bound in bounds))


def _folded(node: Node, positions: dict[str, Array], count: int) -> Array | None:
    """Finds the source position of each output element; None if a moved value is also an index."""
    read = list(node.proto.input)
    if sum(read.count(name) for name in positions) != count:
        return None  # a moved value is also an index
    fold = node.env.rules(Fold).get(("", node.op))
    if fold is None:
        return None
    return fold.value(Node(node.proto, node.schema, _Positions(node.env, positions)))
