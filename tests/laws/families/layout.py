# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements without changing them."""

from __future__ import annotations

import numpy as np

from families.making import Family, Making, rows


def reshape(m: Making) -> None:
    elem, shape = m.elem(), m.shape()
    x = m.moved(elem, shape)
    flat = int(np.prod(shape, dtype=int))
    wanted = list(m.one(shape, shape[::-1], (flat,), (1, *shape), (*shape, 1), (flat, 1)))
    if wanted and flat and m.flag():
        wanted[m.int(0, len(wanted) - 1)] = -1
    allow = m.maybe(m.int(0, 1)) if m.opset >= 14 else None
    if not allow and -1 not in wanted:
        wanted = [
            0 if i < len(shape) and n == shape[i] and m.flag() else n for i, n in enumerate(wanted)
        ]
    if m.opset < 5:
        m.node([x], shape=wanted or None)
        return
    m.node([x, m.ints(wanted)], allowzero=allow)


def transpose(m: Making) -> None:
    elem, shape = m.elem(), m.shape()
    m.node(
        [m.moved(elem, shape)],
        perm=m.maybe([int(i) for i in m.shuffled(range(len(shape)))] or None),
    )


def flatten(m: Making) -> None:
    elem, shape = m.elem(), m.shape(1 if m.opset < 9 else 0)
    low = -len(shape) if m.opset >= 11 else 0
    axis = m.int(low, len(shape))
    m.node([m.moved(elem, shape)], axis=axis if m.flag() or len(shape) < 1 else None)


def squeeze(m: Making) -> None:
    elem, shape = m.elem(), list(m.shape())
    ones = [i for i, n in enumerate(shape) if n == 1]
    chosen = [i for i in m.shuffled(ones) if m.flag()]
    axes = [i - len(shape) if m.opset >= 11 and m.flag() else i for i in chosen] or None
    x = m.moved(elem, shape)
    if m.opset < 13:
        m.node([x], axes=axes)
    else:
        m.node([x] + ([m.ints(axes)] if axes else []))


def unsqueeze(m: Making) -> None:
    elem, shape = m.elem(), m.shape(0, 3)
    total = len(shape) + m.int(1, 2)
    chosen = m.shuffled(range(total))[: total - len(shape)]
    axes = [int(i) - total if m.opset >= 11 and m.flag() else int(i) for i in chosen]
    x = m.moved(elem, shape)
    if m.opset < 13:
        m.node([x], axes=axes)
    else:
        m.node([x, m.ints(axes)])


def concat(m: Making) -> None:
    elem, shape = m.elem(), m.shape(1)
    axis = m.axis(len(shape))
    if m.opset < 4 and m.flag():
        axis = 1 if len(shape) > 1 else 0
    parts = []
    for _ in range(m.int(1, 3)):
        part = list(shape)
        part[axis] = m.int(0, 3)
        parts.append(m.moved(elem, part))
    m.node(parts, axis=None if m.opset < 4 and axis == 1 and m.flag() else axis)


def split(m: Making) -> None:
    elem, shape = m.elem(), list(m.shape(1))
    axis = m.axis(len(shape))
    parts = m.int(1, 3)
    equal = m.flag()
    lengths = [m.int(1, 2)] * parts if equal else [m.int(0, 3) for _ in range(parts)]
    shape[axis] = sum(lengths)
    written = axis if axis or m.opset < 2 or m.flag() else None
    x = m.moved(elem, shape)
    if m.opset < 2:
        m.node([x], parts, axis=written, split=lengths)
    elif m.opset < 13:
        m.node([x], parts, axis=written, split=None if equal and m.flag() else lengths)
    elif m.opset < 18:
        m.node([x] + ([] if equal and m.flag() else [m.ints(lengths)]), parts, axis=written)
    elif m.flag():
        m.node([x, m.ints(lengths)], parts, axis=written)
    else:
        if m.flag() and parts > 1 and lengths[0] > 1 and equal:
            shape[axis] -= 1
            x = m.moved(elem, shape)
            m.given = [g for g in m.given if g.name == x]
        elif not equal:
            shape[axis] = parts * 2
            x = m.moved(elem, shape)
            m.given = [g for g in m.given if g.name == x]
        m.node([x], parts, axis=written, num_outputs=parts)


def slice_(m: Making) -> None:
    elem, shape = m.elem(), m.shape(1)
    rank = len(shape)
    places = m.shuffled(range(rank))[: m.int(1, rank)]
    if m.one(True, False, False):
        places = list(range(len(places)))
    starts = [m.one(0, 1, -1, -2, 2, 100, -100) for _ in places]
    ends = [m.one(1, 2, -1, 3, 100, 2**31 - 1, 2**63 - 1, -100, 0) for _ in places]
    plain = places == list(range(len(places))) and m.flag()
    axes = None if plain else [p - rank if m.opset >= 11 and m.flag() else int(p) for p in places]
    x = m.moved(elem, shape)
    if m.opset < 10:
        m.node([x], starts=starts, ends=ends, axes=axes)
        return
    kind = m.one(np.int64, np.int64, np.int32)
    if kind == np.int32:
        ends = [min(e, 2**31 - 1) for e in ends]
    inputs = [x, m.ints(starts, kind), m.ints(ends, kind)]
    inputs.append("" if axes is None else m.ints(axes, kind))
    if m.flag():
        inputs.append(m.ints([m.one(1, 2, -1, -2, 3) for _ in places], kind))
    m.node(inputs)


def pad(m: Making) -> None:
    elem, shape = m.elem(), m.shape(1, 3, zero=False)
    rank = len(shape)
    modes = [None, "constant", "edge", "reflect"] + (["wrap"] if m.opset >= 19 else [])
    mode = m.one(*modes)
    low = -1 if mode in (None, "constant") and m.one(True, False, False) else 0
    places = list(range(rank))
    if m.opset >= 18 and m.flag():
        places = m.shuffled(places)[: m.int(1, rank)]
    pads = []
    for _ in range(2):
        for p in places:
            most = 2 if mode != "reflect" else shape[p] - 1
            most = min(most, shape[p]) if mode == "wrap" else most
            least = -1 if low and shape[p] > 2 else 0
            pads.append(m.int(least, max(most, 0)))
    x = m.moved(elem, shape)
    if m.opset < 2:
        if m.one(True, True, True, False):
            pads = [p for _ in range(2) for p in pads[:rank]]
        m.node([x], paddings=pads, mode=mode, value=m.maybe(m.number(-1, 1)))
    elif m.opset < 11:
        m.node([x], pads=pads, mode=mode, value=m.maybe(m.number(-1, 1)))
    else:
        inputs = [x, m.ints(pads)]
        inputs.append(m.feed(m.array(elem, ()), fixed=True) if m.flag() else "")
        if m.opset >= 18 and (places != list(range(rank)) or m.flag()):
            axes = [int(p) - rank if m.flag() else int(p) for p in places]
            inputs.append(m.ints(axes, m.one(np.int64, np.int32)))
        m.node(inputs, mode=mode)


def tile(m: Making) -> None:
    elem, shape = m.elem(), m.shape(1)
    x = m.moved(elem, shape)
    if m.opset >= 6:
        m.node([x, m.ints([m.int(0, 3) for _ in shape])])
    else:
        dtype = m.array(elem, ()).dtype
        times, axis = m.int(1, 3), m.int(0, len(shape) - 1)
        m.node([x, m.ints(times, dtype), m.ints(axis, dtype)])


def expand(m: Making) -> None:
    elem, shape = m.elem(), m.shape()
    have = m.stretched(shape)
    wanted = [
        1 if i >= len(shape) - len(have) and m.flag() and have[i - len(shape)] == n else n
        for i, n in enumerate(shape)
    ]
    m.node([m.moved(elem, have), m.ints(wanted)])


def blocks(m: Making) -> None:
    b = m.int(1, 3)
    n, c, h, w = m.int(1, 2), m.int(1, 2), m.int(1, 2), m.int(1, 3)
    mode = m.one(None, "DCR", "CRD") if m.op == "DepthToSpace" and m.opset >= 11 else None
    if m.op == "SpaceToDepth" and m.opset >= 28:
        mode = m.one(None, "DCR", "CRD")
    shape = (n, c * b * b, h, w) if m.op == "DepthToSpace" else (n, c, h * b, w * b)
    m.node([m.moved(m.elem(), shape)], blocksize=b, mode=mode)


def shape_of(m: Making) -> None:
    elem, shape = m.elem(), m.shape()
    ends = {}
    if m.op == "Shape" and m.opset >= 15:
        ends = {k: m.maybe(m.int(-5, 5)) for k in ("start", "end")}
    m.node([m.moved(elem, shape)], **ends)


def center(m: Making) -> None:
    elem, shape = m.elem(), m.shape(1, 3, zero=False)
    places = m.shuffled(range(len(shape)))[: m.int(1, len(shape))] if m.flag() else None
    wanted = [m.int(1, 5) for _ in (shape if places is None else places)]
    axes = None if places is None else [int(p) - len(shape) if m.flag() else int(p) for p in places]
    m.node([m.moved(elem, shape), m.ints(wanted, m.one(np.int64, np.int32))], axes=axes)


def trilu(m: Making) -> None:
    elem, shape = m.elem(), (*m.shape(0, 2), m.int(0, 4), m.int(0, 4))
    k = [m.ints(m.int(-5, 5))] if m.flag() else []
    m.node([m.moved(elem, shape), *k], upper=m.maybe(m.int(0, 1)))


LAYOUT: Family = {
    **rows("Reshape", reshape),
    **rows("Transpose", transpose),
    **rows("Flatten", flatten),
    **rows("Squeeze", squeeze),
    **rows("Unsqueeze", unsqueeze),
    **rows("Shape Size", shape_of),
    **rows("DepthToSpace SpaceToDepth", blocks),
    **rows("CenterCropPad", center),
    **rows("Trilu", trilu),
}
MOVEMENT: Family = {
    **rows("Concat", concat),
    **rows("Split", split),
    **rows("Slice", slice_),
    **rows("Pad", pad),
    **rows("Tile", tile),
    **rows("Expand", expand),
}
