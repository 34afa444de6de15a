# SPDX-License-Identifier: Apache-2.0
"""A Transpose before an input of a matrix product, as onnxruntime looks for it."""

from __future__ import annotations

from typing import NamedTuple

from opshift.adapter import Node, Value


class Turned(NamedTuple):
    """The Transpose whose result a product reads, and the Cast between them."""

    transpose: Node
    cast: Node | None
    order: list[int]

    @property
    def keeps(self) -> bool:
        """Whether no axis moves."""
        return self.order == sorted(self.order)

    @property
    def swaps(self) -> bool:
        """Whether the last two axes change places, and no others move."""
        rank = len(self.order)
        return self.order == [*range(rank - 2), rank - 1, rank - 2]

    @property
    def moves_the_first(self) -> bool:
        """Whether the first axis moves to one of the last two places, after the batch axes."""
        rank = len(self.order)
        batch, last = self.order[:-2], self.order[-2:]
        return rank > 2 and batch == [*range(1, rank - 1)] and sorted(last) == [0, rank - 1]


def turned(value: Value) -> Turned | None:
    """The Transpose that gives a value, perhaps before one Cast; of a constant, it is folded."""
    made, cast = value.producer, None
    if made is not None and made.op == "Cast":
        made, cast = made["input"].producer, made
    if made is None or made.op != "Transpose" or is_fixed(made["data"]):
        return None
    rank = made["data"].rank_or_none
    order = made.ints_or_none("perm") or (None if rank is None else list(reversed(range(rank))))
    return None if order is None or len(order) < 2 else Turned(made, cast, order)


def is_fixed(value: Value) -> bool:
    """Whether a value is a constant. A large weight is not read."""
    return value.is_weight or value.const_or_none() is not None
