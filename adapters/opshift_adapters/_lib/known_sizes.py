# SPDX-License-Identifier: Apache-2.0
"""Comparison of the known sizes of inputs."""

from collections.abc import Sequence
from typing import TypeAlias

from opshift.adapter import Node

Size: TypeAlias = int | str | None
Dims: TypeAlias = Sequence[Size]


def dims_of(node: Node, name: str) -> Dims | None:
    """Returns the dimensions of an input, or None if the operator lacks it at this opset."""
    positions = node.schema.input_positions if node.schema is not None else {}
    value = node.input(name) if name in positions else None
    return value and value.dims_or_none


def differ(a: Size, b: Size) -> bool:  # pragma: no cover: only illegal nodes reach this
    """Returns whether two sizes are known to differ."""
    return isinstance(a, int) and isinstance(b, int) and a != b


def broadcasts(own: Dims, dims: Dims) -> bool:  # pragma: no cover: as above
    """Returns whether a shape with these known sizes may broadcast to the end of another shape."""
    pairs = zip(own[::-1], dims[::-1], strict=False)
    return not any(one != 1 and differ(one, whole) for one, whole in pairs)
