# SPDX-License-Identifier: Apache-2.0
"""The sizes of inputs as far as they are known."""

from collections.abc import Sequence
from typing import TypeAlias

from opshift.adapter import Node

Dims: TypeAlias = Sequence[int | str | None]


def dims_of(node: Node, name: str) -> Dims | None:
    """The dimensions of an input that the node may lack at this version."""
    known = node.schema.input_positions if node.schema is not None else {}
    value = node.input(name) if name in known else None
    return value and value.dims_or_none


def differ(one: int | str | None, other: int | str | None) -> bool:
    """Whether two sizes are known to differ."""
    return (  # pragma: no cover: only illegal nodes reach this
        isinstance(one, int) and isinstance(other, int) and one != other
    )
