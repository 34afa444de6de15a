# SPDX-License-Identifier: Apache-2.0
"""Scatter and TensorScatter, which write updates into a tensor."""

import math

from opshift.adapter import (
    Array,
    Builder,
    InvalidModel,
    Node,
    Result,
    T,
    Value,
    adapter,
    boundary,
    np,
)

from opshift_adapters._lib.blocks import arange, column, shape_of, size_of
from opshift_adapters._lib.kinds import as_type


@adapter("Scatter", 9, 8)
def scatter_9_8(node: Node, op: Builder) -> Result:
    """Below opset 9, Scatter becomes a Gather from the old elements joined with the updates."""
    data, updates, axis = node["data"], node["updates"], node.int("axis")
    indices = node["indices"]
    if indices.rank == 0:
        raise InvalidModel(f"Scatter {node.name!r} has scalar indices, but they must have an axis")
    axis %= indices.rank
    places, shape = indices.const_or_none(), data.shape_or_none
    flat = op.const([-1])
    old, new = op.Reshape(data, flat), op.Reshape(updates, flat)
    if places is not None and shape is not None and places.ndim != len(shape):
        raise InvalidModel(
            f"Scatter {node.name!r} has data of rank {len(shape)} and indices of rank {places.ndim}"
        )
    if places is None or shape is None:
        written = scattered(op, old, _flat_places(op, data, indices, axis), new)
        return op.Reshape(written, shape_of(op, data), allowzero=1)
    beside = [
        one <= size
        for at, (one, size) in enumerate(zip(places.shape, shape, strict=True))
        if at != axis
    ]
    inside = not places.size or -shape[axis] <= places.min() <= places.max() < shape[axis]
    if not inside or not all(beside):
        raise InvalidModel(f"Scatter {node.name!r} has indices outside of {data.name!r}")
    return op.Gather(op.Concat(old, new, axis=0), op.const(_chosen(places, shape, axis)), axis=0)


def _chosen(places: Array, shape: tuple[int, ...], axis: int) -> Array:
    """Returns, for each result element, its index in the old elements joined with the updates."""
    coordinates: list[Array] = list(np.indices(places.shape))
    coordinates[axis] = places
    source = np.arange(math.prod(shape)).reshape(shape)
    source[tuple(coordinates)] = source.size + np.arange(places.size).reshape(places.shape)
    return source


def _flat_places(op: Builder, data: Value, indices: Value, axis: int) -> Value:
    """Converts the index of each update to an index in the flattened data."""
    rank, stride = indices.rank, op.const(1)
    place = as_type(op, indices, T.INT64)
    total = None
    for each in reversed(range(rank)):
        if each == axis:
            part = place * stride
        else:
            steps = arange(op, size_of(op, indices, each)) * stride
            part = column(op, steps, rank, each)
        total = part if total is None else total + part
        stride = stride * size_of(op, data, each)
    assert total is not None
    return op.Reshape(total, op.const([-1]))


def scattered(op: Builder, data: Value, places: Value, updates: Value) -> Value:
    """Writes each update into a vector at its index (opset 7 and 8); the last update wins."""
    both: Value = op.Concat(data, updates, axis=0)
    return op.Gather(both, _last_writer(op, data, places), axis=0)


def _last_writer(op: Builder, data: Value, places: Value) -> Value:
    """Writes a Loop over the updates that computes, for each result element, where to gather it."""
    shape = data.shape_or_none
    size = op.Size(data) if shape is None else op.const(math.prod(shape))
    positions = arange(op, size)

    def write(b: Builder, i: Value, keep: Value, now: Value) -> tuple[Value, Value]:
        hit = b.Cast(b.Equal(positions, b.Gather(places, i, axis=0)), to=T.INT64)
        return b.Identity(keep), now + (size + i - now) * hit

    body = op.graph(write, (T.INT64, ()), (T.BOOL, ()), (T.INT64, (None,)))
    written = op.Loop(op.Size(places), op.const(True, T.BOOL), positions, body=body)
    return op.Cast(written, to=T.INT64)  # declares the type


@adapter("Scatter", 10, 11)
def scatter_10_11(node: Node, op: Builder) -> Result:
    """Opset 11 renamed Scatter to ScatterElements."""
    return op.ScatterElements(*node.inputs, axis=node.int("axis"))


SCATTER_11 = boundary(11, "Scatter:a20999", directions="down")


@adapter("TensorScatter", 24, 23, in_other_words=True)
def tensor_scatter_24_23(node: Node, op: Builder) -> Result:
    """Below opset 24, TensorScatter is written as ScatterElements with an index per element."""
    cache, update, first = node["past_cache"], node["update"], node.input("write_indices")
    rank = update.rank
    axis = node.int("axis") % rank
    steps = arange(op, size_of(op, update, axis))
    place = op.Unsqueeze(steps, op.const([a for a in range(rank) if a != axis]))
    if first is not None:
        place = place + op.Unsqueeze(first, op.const(list(range(1, rank))))
    if node.str("mode") == "circular":
        place = op.Mod(place, size_of(op, cache, axis))
    place = op.Expand(place, op.Shape(update))
    kind = cache.elem_type_or_none
    wide = _movable(kind)
    if kind is None or wide is None:
        return op.ScatterElements(cache, place, update, axis=axis)
    written = op.ScatterElements(
        op.Cast(cache, to=wide), place, op.Cast(update, to=wide), axis=axis
    )
    # A saturating Cast would turn the infinities of a float8 into finite numbers.
    return op.Cast(written, to=kind, saturate=0 if wide == T.FLOAT16 else None)


def _movable(kind: int | None) -> int | None:
    """Returns a wider type if ScatterElements does not accept the type `kind`, else None."""
    name = T(kind or 0).name
    if name.startswith(("FLOAT8", "FLOAT4")):
        return T.FLOAT16
    return {"INT4": T.INT8, "UINT4": T.UINT8}.get(name)
