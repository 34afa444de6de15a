# SPDX-License-Identifier: Apache-2.0
"""Gather, GatherElements and GatherND, and the computation of indices in flattened data."""

from opshift.adapter import (
    Array,
    Builder,
    InvalidModel,
    Node,
    Refusal,
    Result,
    T,
    Value,
    Why,
    adapter,
    boundary,
    misread,
    np,
)

from opshift_adapters._lib.blocks import arange, count_from_front, part, places_along, size_of


def from_front(op: Builder, indices: Value, data: Value, axis: int) -> Value:
    """Converts negative indices along an axis to non-negative indices (opset 9 and later)."""
    constant = indices.const_or_none()
    if indices.never_negative:
        return indices
    size = size_of(op, data, axis)
    limit = size.const_or_none()
    if constant is not None and limit is not None:
        return op.const(np.where(constant < 0, constant + limit, constant))
    if indices.elem_type_or_none != T.INT64:
        indices = op.Cast(indices, to=T.INT64)
    return count_from_front(op, indices, size)


def linear(op: Builder, indices: Value, data: Value) -> Value:
    """Converts each row of `indices` to one index in the flattened leading axes of `data`."""
    width = row_width(indices)
    place = from_front(op, _column(op, indices, 0), data, 0)
    for axis in range(1, width):
        step = from_front(op, _column(op, indices, axis), data, axis)
        place = place * size_of(op, data, axis) + step
    return place


def row_width(indices: Value) -> int:
    """Returns the number of indices in each row of `indices`: the size of its last axis."""
    width = indices.dims[-1]
    if not isinstance(width, int):
        raise Refusal(Why.NEEDS_SHAPE, f"the last dimension of {indices.name!r} is unknown")
    return width


MOST_TWICE = 4096  # a constant of up to so many elements may be repeated


def _column(op: Builder, indices: Value, axis: int) -> Value:
    constant = indices.const_or_none()
    if constant is not None:
        return op.const(constant[..., axis])
    return op.Gather(indices, op.const(axis), axis=-1)


def gather_11_10(node: Node, op: Builder) -> Result:
    """Below opset 11, Gather has no negative indices; the size of the axis is added to them."""
    data, indices, axis = node["data"], node["indices"], node.int("axis")
    twice = _twice(data, indices, axis)
    if twice is not None:
        places = indices + op.const(data.shape[axis], like=indices)
        return op.same(node, inputs={"data": op.const(twice, like=data), "indices": places})
    return op.same(node, inputs={"indices": from_front(op, indices, data, axis)})


def _twice(data: Value, indices: Value, axis: int) -> Array | None:
    """Repeats small constant data along an axis, so that every index plus the size is valid."""
    if indices.never_negative or indices.const_or_none() is not None:
        return None
    large = data.is_weight and np.prod(data.shape) > MOST_TWICE
    constant = None if large else data.const_or_none()
    if constant is None or constant.size > MOST_TWICE or indices.elem_type_or_none is None:
        return None
    return np.concatenate([constant] * 2, axis)


GATHER_11 = boundary(11, "Gather:6a21f0", down=gather_11_10)


@misread("Gather", "onnxruntime 0.4..1.32", source="2026-11-30 1.1..1.32: slices of 6 strings")
def loses_strings(node: Node) -> bool:
    """Gather of strings copies only the first string of each slice."""
    data = node["data"]
    if data.elem_type_or_none != T.STRING:
        return False
    return any(size != 1 for size in data.dims[node.int("axis") % data.rank + 1 :])


@adapter("GatherElements", 11, 10, in_other_words=True)
def gather_elements_11_10(node: Node, op: Builder) -> Result:
    """Below opset 11, GatherElements is written as a Gather from the flattened tensor."""
    data, indices = node["data"], node["indices"]
    if indices.elem_type_or_none != T.INT64:
        indices = op.Cast(indices, to=T.INT64)
    rank = data.rank_or_none or indices.rank
    if rank == 0 or indices.rank_or_none not in (None, rank):
        raise InvalidModel(f"GatherElements {node.name!r} has data and indices of different ranks")
    along = node.int("axis") % rank
    return gather_elements(op, data, from_front(op, indices, data, along), rank, along)


def gather_elements(op: Builder, data: Value, indices: Value, rank: int, along: int) -> Value:
    """Writes GatherElements for non-negative int64 indices (opset 7 to 12)."""
    place = place_of_elements(op, data, indices, rank, along)
    return op.Gather(op.Reshape(data, op.const([-1])), place, axis=0)


def place_of_elements(op: Builder, data: Value, indices: Value, rank: int, along: int) -> Value:
    """Converts each non-negative int64 index to an index in the flattened data."""
    place = None
    for axis in range(rank):
        step = indices if axis == along else places_along(op, indices, axis, rank - 1 - axis)
        if place is not None:
            step = place * size_of(op, data, axis) + step
        place = step
    assert place is not None
    return place


@adapter("GatherND", 11, 10, in_other_words=True)
def gather_nd_11_10(node: Node, op: Builder) -> Result:
    """Below opset 11, GatherND is written as a Gather from the flattened tensor."""
    data, indices = node["data"], node["indices"]
    width, rank = row_width(indices), data.rank_or_none
    if rank is not None and width > rank:
        raise InvalidModel(f"GatherND {node.name!r} has indices for {width} axes of {rank}")
    if width == 1:
        return op.Gather(data, linear(op, indices, data), axis=0)
    if width == rank:
        flat = op.Reshape(data, op.const([-1]))
        return op.Gather(flat, linear(op, indices, data), axis=0)
    flat, place = op.Flatten(data, axis=width), linear(op, indices, data)
    rows = op.Gather(flat, place, axis=0)
    if rank == width + 1:
        return rows
    return op.Reshape(
        rows, op.Concat(op.Shape(place), part(op, op.Shape(data), width), axis=0), allowzero=1
    )


def gather_nd_12_11(node: Node, op: Builder) -> Result:
    """Below opset 12, GatherND lacks `batch_dims`; batch numbers are joined to the indices."""
    count = node.int("batch_dims")
    if count == 0:
        return op.same(node, batch_dims=None)
    indices = node["indices"]
    any_column = op.Slice(indices, op.const([0]), op.const([1]), op.const([-1]))
    zeros = any_column - any_column
    columns = []
    for axis in range(count):
        column = arange(op, size_of(op, indices, axis))
        column = op.Unsqueeze(column, axes=list(range(1, indices.rank - axis)))
        columns.append(zeros + column)
    full = op.Concat(*columns, indices, axis=-1)
    return op.same(node, inputs={"indices": full}, batch_dims=None)


GATHER_ND_12 = boundary(12, "GatherND:04663c", down=gather_nd_12_11)
GATHER_13 = boundary(13, "Gather:cc891f GatherElements:f04429 GatherND:b4d248")
