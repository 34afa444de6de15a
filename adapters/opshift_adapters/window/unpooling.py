# SPDX-License-Identifier: Apache-2.0
"""MaxUnpool, which writes the elements that MaxPool selected back to their indices."""

from opshift.adapter import Builder, InvalidModel, Node, Value, adapter, boundary, flaw, np
from opshift.combinators import cast_around

from opshift_adapters._lib.blocks import count_elements, part, shape_of
from opshift_adapters.select.scatter import scattered

BFLOAT16_22 = boundary(22, "MaxUnpool:f48b0c", cast=cast_around("float"))
TEXT_11 = boundary(11, "MaxUnpool:00a49e")


@flaw("MaxUnpool")
def lists_of_other_lengths(node: Node) -> str | None:
    """MaxUnpool needs one stride and two pads for each axis of the kernel."""
    axes = len(node.ints("kernel_shape"))
    for name, wanted in (("strides", axes), ("pads", 2 * axes)):
        numbers = node.ints_or_none(name)
        if numbers is not None and len(numbers) != wanted:
            return (
                f"{name} has {len(numbers)} numbers for {axes} spatial axes, but must have {wanted}"
            )
    return None  # pragma: no cover: only illegal nodes reach this


@adapter("MaxUnpool", 9, 8)
def max_unpool_9_8(node: Node, op: Builder) -> Value:
    """Below opset 9, MaxUnpool is written as a Loop that finds the last update of each element."""
    x, kernel = node["X"], np.array(node.ints("kernel_shape"))
    strides = np.array(node.ints_or_none("strides") or [1] * kernel.size)
    pads = np.array(node.ints_or_none("pads") or [0] * 2 * kernel.size).reshape(2, -1)
    grown = shape_of(op, x) * op.const([1, 1, *strides])
    shape = grown + op.const([0, 0, *(kernel - strides - pads.sum(axis=0))])
    flat, said = op.const([-1]), node.input("output_shape")
    sizes = shape.const_or_none()
    if said is None and sizes is not None and (sizes < 0).any():
        raise InvalidModel(f"MaxUnpool {node.name!r} has a result of negative size {sizes.min()}")
    places = op.Reshape(node["I"], flat)
    if said is not None:
        places, shape = _in_corner(op, places, shape, said, 2 + kernel.size), said
    zeros = op.Expand(op.const(0.0, like=x), count_elements(op, shape))
    return op.Reshape(scattered(op, zeros, places, op.Reshape(x, flat)), shape, allowzero=1)


def _in_corner(op: Builder, places: Value, own: Value, whole: Value, rank: int) -> Value:
    """Converts flat indices of a tensor to those of a larger tensor, in the first corner."""
    moved, stride = op.const([0]), op.const([1])
    for axis in reversed(range(rank)):
        size = part(op, own, axis, axis + 1)
        above = places / size
        along = places - above * size
        moved = moved + along * stride
        places, stride = above, stride * part(op, whole, axis, axis + 1)
    return moved
