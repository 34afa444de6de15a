# SPDX-License-Identifier: Apache-2.0
"""Bounds of whole numbers before the model runs: sizes and indices that are never negative."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from opshift.author.node import Env, Node, Value
from opshift.author.traits import UNTOLD, Fold, OutputBounds
from opshift.lazy import deferred
from opshift.model.arrays import Array
from opshift.records import dataclass

if TYPE_CHECKING:
    import numpy as np

    from opshift.author.facts import Facts
    from opshift.model.scope import Scope
else:
    np = deferred("numpy")

MOST_EACH = 4096  # elements whose bounds are kept one by one


@dataclass(frozen=True, slots=True)
class Bounds:
    """The smallest and the largest integer that the elements of a value can be.

    The arrays hold Python's integers, which never wrap. They have the shape of the value if each
    element has bounds of its own; otherwise they hold one number for all elements.
    """

    low: Array
    high: Array
    each: bool = False

    @property
    def never_negative(self) -> bool:
        return self.lowest >= 0

    @property
    def exact(self) -> Array | None:
        """The values, if the bounds leave no choice."""
        return self.low if self.each and bool((self.low == self.high).all()) else None

    @property
    def lowest(self) -> int:
        return int(self.low.min()) if self.low.size else 0

    @property
    def highest(self) -> int:
        return int(self.high.max()) if self.high.size else 0

    @property
    def joint(self) -> Bounds:
        """One pair of bounds for all elements."""
        return for_all(self.lowest, self.highest)


def for_all(low: int, high: int) -> Bounds:
    """The same bounds for all elements."""
    return Bounds(np.array(int(low), dtype=object), np.array(int(high), dtype=object))


def of_constant(value: Array) -> Bounds | None:
    """The bounds of a constant of whole numbers."""
    if value.dtype.kind not in "iub":
        return None
    if value.size > MOST_EACH:
        return for_all(value.min(), value.max())
    exact = value.astype(np.int64 if value.dtype.kind == "b" else value.dtype).astype(object)
    return Bounds(exact, exact, each=True)


def find(facts: Facts, scope: Scope, owner: Scope, name: str) -> Bounds | None:
    """The bounds of a value: of a constant, or by the rule of the operator that computes it."""
    known = facts.constant(owner, name)
    if known is not None:
        return of_constant(known)
    node = facts.producer(scope, name)
    rule = facts.adapters.rules(OutputBounds).get(("", node.op)) if node is not None else None
    if rule is None or node is None or node.proto.domain not in ("", "ai.onnx"):
        return None
    try:
        found = rule.run(node)
    except UNTOLD:
        return None
    at = list(node.proto.output).index(name)
    return found[at] if at < len(found) else None


class _Positions(Env):
    """An Env in which the elements of some values are their own positions."""

    def __init__(self, env: Env, given: dict[str, Array]) -> None:
        super().__init__(env.facts, env.scope)
        self.given = given

    def constant(self, name: str) -> Array | None:
        return self.given[name] if name in self.given else super().constant(name)

    def producer(self, name: str) -> Node | None:
        return None if name in self.given else super().producer(name)

    def why_dynamic(self, name: str) -> str:
        return "it is computed"


def moved(node: Node, data: Sequence[Value]) -> Bounds:
    """The bounds of the outputs of an operator that only moves elements of these inputs.

    Folding the operator on the positions of the elements tells where each of them goes.
    """
    bounds = [value.bounds for value in data]
    if all(one.each for one in bounds):
        positions, lows, highs = {}, [], []
        count = 0
        for value, one in zip(data, bounds, strict=True):
            size = one.low.size
            positions[value.name] = np.arange(count, count + size).reshape(one.low.shape)
            lows.append(one.low.reshape(-1))
            highs.append(one.high.reshape(-1))
            count += size
        places = _folded(node, positions, len(data))
        if places is not None and places.size <= MOST_EACH:
            low, high = (np.concatenate(parts)[places.reshape(-1)] for parts in (lows, highs))
            return Bounds(low.reshape(places.shape), high.reshape(places.shape), each=True)
    return for_all(min(one.lowest for one in bounds), max(one.highest for one in bounds))


def _folded(node: Node, positions: dict[str, Array], count: int) -> Array | None:
    """The positions after folding the operator; None if folding needs other values too."""
    read = list(node.proto.input)
    if sum(read.count(name) for name in positions) != count:
        return None  # an index is also what is indexed
    fold = node.env.facts.adapters.rules(Fold).get(("", node.op))
    if fold is None:
        return None
    return fold.value(Node(node.proto, node.schema, _Positions(node.env, positions)))
