# SPDX-License-Identifier: Apache-2.0
"""Reading and writing at computed positions."""

from __future__ import annotations

import numpy as np

from families.making import Family, Making, rows


def _places(m: Making, size: int, shape: tuple[int, ...], negative: bool = True) -> np.ndarray:
    low = -size if negative and m.flag() else 0
    return m.rng.integers(low, size, shape).astype(m.one(np.int64, np.int32))


def gather(m: Making) -> None:
    elem, shape = m.elem(), m.shape(1, 3, zero=False)
    axis = m.int(-len(shape), len(shape) - 1)
    indices = _places(m, shape[axis], m.shape(0, 2), m.opset >= 11)
    m.node(
        [m.moved(elem, shape), m.feed(indices, fixed=m.flag())],
        axis=m.one(axis, axis, axis if axis else None),
    )


def gather_elements(m: Making) -> None:
    elem, shape = m.elem(), m.shape(1, 3, zero=False)
    axis = m.int(-len(shape), len(shape) - 1)
    size = tuple(
        m.int(1, 4) if i == axis % len(shape) else m.int(1, n) for i, n in enumerate(shape)
    )
    indices = _places(m, shape[axis], size)
    m.node([m.moved(elem, shape), m.feed(indices, fixed=m.flag())], axis=axis)


def _nd(m: Making, shape: tuple[int, ...], batch: int) -> np.ndarray:
    """Rows of coordinates, each of them another position."""
    k = m.int(1, len(shape) - batch)
    lead = shape[:batch]
    count = m.int(1, 3)
    sizes = shape[batch : batch + k]
    low = [-n if m.flag() else 0 for n in sizes]
    rows_ = [m.rng.integers(lo, n, (*lead, count)) for lo, n in zip(low, sizes, strict=True)]
    return np.stack(rows_, -1).astype(np.int64)


def gather_nd(m: Making) -> None:
    elem, shape = m.elem(), m.shape(1, 4, zero=False)
    batch = m.int(0, len(shape) - 1) if m.opset >= 12 else 0
    indices = _nd(m, shape, batch)
    m.node(
        [m.moved(elem, shape), m.feed(indices, fixed=m.flag())],
        batch_dims=batch or (m.maybe(0) if m.opset >= 12 else None),
    )


def scatter_nd(m: Making) -> None:
    elem, shape = m.elem(), m.shape(1, 3, zero=False)
    reduction = _reduction(m, elem)
    indices = _nd(m, shape, 0)
    if reduction in (None, "none"):
        places = {
            tuple(int(i) % n for i, n in zip(row, shape, strict=False)): row for row in indices
        }
        indices = np.stack(list(places.values()))
    updates = (*indices.shape[:-1], *shape[indices.shape[-1] :])
    m.node(
        [m.data(elem, shape), m.feed(indices, fixed=m.flag()), m.data(elem, updates)],
        reduction=reduction,
    )


def _reduction(m: Making, elem: str) -> str | None:
    if m.opset < 16 or elem in ("string", "bool", "complex64", "complex128"):
        return None
    return (
        str(m.one("none", "add", "mul", *(("max", "min") if m.opset >= 18 else ())))
        if m.flag()
        else None
    )


def scatter_elements(m: Making) -> None:
    elem, shape = m.elem(), m.shape(1, 3, zero=False)
    axis = m.int(-len(shape), len(shape) - 1)
    reduction = _reduction(m, elem)
    size = [m.int(1, n) for n in shape]
    if reduction in (None, "none"):
        # Along the axis each place is written once.
        place = axis % len(shape)
        indices = np.stack(
            [
                m.rng.permutation(shape[axis])[: size[place]]
                for _ in range(int(np.prod(size)) // size[place])
            ]
        )
        moved = [*size[:place], *size[place + 1 :], size[place]]
        indices = np.moveaxis(indices.reshape(moved), -1, place)
        if m.flag() and m.opset >= 11:
            indices = indices - shape[axis]
        indices = indices.astype(m.one(np.int64, np.int32))
    else:
        indices = _places(m, shape[axis], tuple(size))
    m.node(
        [m.data(elem, shape), m.feed(indices, fixed=m.flag()), m.data(elem, size)],
        axis=axis,
        reduction=reduction,
    )


def one_hot(m: Making) -> None:
    places, depth_kind, elem = m.elem(0), m.elem(1), m.elem(2)
    shape, depth = m.shape(0, 2), m.int(1, 4)
    low, high = (
        (-depth - 1, depth + 2) if not places.startswith("u") and m.opset >= 11 else (0, depth)
    )
    indices = m.rng.integers(low, high, shape).astype(m.array(places, ()).dtype)
    limit = np.array(depth if m.opset >= 11 and m.flag() else [depth]).reshape(
        () if m.flag() else (1,)
    )
    axis = m.maybe(m.int(-len(shape) - 1 if m.opset >= 11 else -1, len(shape)))
    m.node(
        [
            m.feed(indices),
            m.feed(limit.astype(m.array(depth_kind, ()).dtype), fixed=True),
            m.moved(elem, (2,)),
        ],
        axis=axis,
    )


def non_zero(m: Making) -> None:
    m.node([m.moved(m.elem(), m.shape(1))])


def compress(m: Making) -> None:
    elem, shape = m.elem(), m.shape(1, 3, zero=False)
    axis = m.maybe(m.axis(len(shape)))
    size = shape[axis] if axis is not None else int(np.prod(shape))
    condition = m.array("bool", (m.int(0, size),))
    m.node([m.moved(elem, shape), m.feed(condition, fixed=m.flag())], axis=axis)


def unique(m: Making) -> None:
    elem, shape = m.elem(), m.shape(1, 3, zero=False)
    x = m.array(elem, shape)
    if x.dtype.kind not in "Ob":
        x = np.round(np.abs(x.astype(np.float64)) / 2).astype(x.dtype)
    axis = m.maybe(m.axis(len(shape)))
    m.node(
        [m.feed(x)],
        m.one((True,), (True, True, True, True), (True, False, True)),
        axis=axis,
        sorted=m.maybe(m.int(0, 1)),
    )


def reverse(m: Making) -> None:
    time, batch = m.int(1, 4), m.int(1, 3)
    first = m.one(0, 1)
    shape = ((time, batch) if first == 0 else (batch, time)) + m.shape(0, 2, zero=False)
    lengths = m.rng.integers(0 if m.flag() else 1, time + 1, batch).astype(np.int64)
    both = {"time_axis": first, "batch_axis": 1 - first} if first or m.flag() else {}
    m.node([m.moved(m.elem(), shape), m.feed(lengths)], **both)


def tensor_scatter(m: Making) -> None:
    elem, batch, length, depth = m.elem(), m.int(1, 3), m.int(1, 5), m.int(1, 3)
    mode = m.one(None, "linear", "circular")
    new = m.int(1, length)
    inputs = [m.moved(elem, (batch, 2, length, depth)), m.moved(elem, (batch, 2, new, depth))]
    if m.flag():
        most = length if mode == "circular" else length - new + 1
        inputs.append(m.feed(m.rng.integers(0, most, batch)))
    m.node(inputs, mode=mode, axis=m.one(None, -2, 2))


INDEXING: Family = {
    **rows("Gather", gather),
    **rows("GatherElements", gather_elements),
    **rows("GatherND", gather_nd),
    **rows("ScatterND", scatter_nd),
    **rows("ScatterElements Scatter", scatter_elements),
    **rows("OneHot", one_hot),
    **rows("NonZero", non_zero),
    **rows("Compress", compress),
    **rows("Unique", unique),
    **rows("ReverseSequence", reverse),
    **rows("TensorScatter", tensor_scatter),
}
