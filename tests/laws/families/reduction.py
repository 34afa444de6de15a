# SPDX-License-Identifier: Apache-2.0
"""Reductions, TopK and similar operators, and cumulative sums."""

from __future__ import annotations

import numpy as np

from families.making import BIG, Family, Making, rows

AXES_AS_INPUT = {"ReduceSum": 13}
# What these make of no elements at all is beyond doubt.
OF_NOTHING = ("ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceProd")


def reduced(m: Making) -> None:
    elem, shape = m.elem(), m.shape(zero=m.op in OF_NOTHING)
    kind = "positive" if "Log" in m.op else "any"
    if m.op in ("ReduceMax", "ReduceMin"):
        kind = m.one("any", "special")
    x = m.data(elem, shape, kind)
    keep = m.maybe(m.int(0, 1))
    how = m.one("some", "some", "some", "none", "empty") if shape else "none"
    if m.opset < AXES_AS_INPUT.get(m.op, 18):
        axes = m.axes(len(shape), 1) if how == "some" else None
        m.node([x], axes=axes, keepdims=keep)
        return
    noop = m.maybe(m.int(0, 1))
    inputs = [x]
    if how != "none":
        inputs.append(m.ints(m.axes(len(shape), 1) if how == "some" else []))
    m.node(inputs, keepdims=keep, noop_with_empty_axes=noop)


def best(m: Making) -> None:
    elem, shape = m.elem(), m.shape(1, 4, zero=False)
    last = m.maybe(m.int(0, 1)) if m.opset >= 12 else None
    x = np.round(m.array(elem, shape, m.one("any", "special"))).astype(m.array(elem, ()).dtype)
    axis = m.maybe(m.axis(len(shape)))
    m.node([m.feed(x)], axis=axis, keepdims=m.maybe(m.int(0, 1)), select_last_index=last)


def top(m: Making) -> None:
    elem, shape = m.elem(), m.shape(1, 4, zero=False)
    axis = m.axis(len(shape))
    k = m.int(0 if m.opset >= 10 else 1, shape[axis])
    count = int(np.prod(shape))
    x = m.rng.permutation(count) - count // 2 if m.flag() else m.rng.integers(0, 4, count)
    if elem.startswith("u"):
        x = x - x.min(initial=0)
    x = x.reshape(shape).astype(m.array(elem, ()).dtype)
    if elem in BIG and m.flag():
        x = x + np.array(BIG[elem], x.dtype)
    x = m.feed(x)
    written = axis if m.flag() or axis not in (len(shape) - 1, -1) else None
    if m.opset < 10:
        m.node([x], 2, axis=written, k=k)
        return
    largest = m.maybe(m.int(0, 1)) if m.opset >= 11 else None
    ordered = m.one(None, 1) if m.opset >= 11 else None
    m.node([x, m.ints([k])], 2, axis=written, largest=largest, sorted=ordered)


def running(m: Making) -> None:
    elem, shape = m.elem(), m.shape(1, 4)
    axis = m.int(-len(shape), len(shape) - 1)
    place = np.array(axis, m.one(np.int32, np.int64))
    flags = {k: m.maybe(m.int(0, 1)) for k in ("exclusive", "reverse")}
    m.node([m.data(elem, shape), m.feed(place, fixed=True)], **flags)


REDUCTION: Family = {
    **rows("ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2", reduced),
    **rows("ReduceLogSum ReduceLogSumExp ReduceSumSquare", reduced),
    **rows("ArgMax ArgMin", best),
    **rows("TopK", top),
    **rows("CumSum CumProd", running),
}
