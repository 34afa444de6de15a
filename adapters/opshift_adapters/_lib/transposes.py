# SPDX-License-Identifier: Apache-2.0
"""A Transpose before an input of a matrix product, as onnxruntime matches it."""

from __future__ import annotations

from typing import NamedTuple

from opshift.adapter import Node, Value

from opshift_adapters._lib.makers import maker


class Turned(NamedTuple):
    """A Transpose before an input of a matrix product, and the Cast between them, if any."""

    transpose: Node
    cast: Node | None
    order: list[int]

    @property
    def keeps(self) -> bool:
        """Returns whether the Transpose does not change the order of the axes."""
        return self.order == sorted(self.order)

    @property
    def swaps(self) -> bool:
        """Returns whether the Transpose only swaps the last two axes."""
        rank = len(self.order)
        return self.order == [*range(rank - 2), rank - 1, rank - 2]

    @property
    def moves_the_first(self) -> bool:
        """Returns whether the first axis moves behind the batch axes, to one of the last two."""
        rank = len(self.order)
        batch, last = self.order[:-2], self.order[-2:]
        return rank > 2 and batch == [*range(1, rank - 1)] and sorted(last) == [0, rank - 1]


def turned(value: Value) -> Turned | None:
    """Returns the Transpose, perhaps followed by a Cast, that computes a value at run time."""
    cast = maker(value, "Cast")
    producer = maker(value if cast is None else cast["input"], "Transpose")
    if producer is None or is_fixed(producer["data"]):
        return None
    rank = producer["data"].rank_or_none
    order = producer.ints_or_none("perm") or (None if rank is None else list(reversed(range(rank))))
    return None if order is None or len(order) < 2 else Turned(producer, cast, order)


def is_fixed(value: Value) -> bool:
    """Returns whether a value is a constant or a weight, without reading the weight."""
    return value.is_weight or value.const_or_none() is not None
