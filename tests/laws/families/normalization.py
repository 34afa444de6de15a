# SPDX-License-Identifier: Apache-2.0
"""Normalisations and Dropout."""

from __future__ import annotations

import numpy as np
from opshift.opsets import schemas

from families.making import Family, Making, rows


def batch(m: Making) -> None:
    low = 2 if m.opset >= 6 else 4
    shape = (m.int(1, 3), m.int(1, 3), *m.shape(low - 2, 2 if low == 4 else 3))
    elem = m.elem()
    if m.opset >= 9 and m.one(*[False] * 7, True):
        shape = (m.int(1, 3),)
    channels = shape[1] if len(shape) > 1 else 1
    other = m.elem(1, op="BatchNormalization") if m.opset >= 15 else elem
    moments = m.elem(3) if m.opset >= 14 else other
    written: dict[str, object] = {
        "epsilon": m.maybe(m.number(0.125, 1)),
        "momentum": m.maybe(m.number(0, 1)),
    }
    sizes: tuple[int, ...] = (channels,)
    outputs: tuple[bool, ...] = (True,)
    if m.opset < 9 and len(shape) > 1:
        written["spatial"] = spatial = m.one(None, 1, 1, 0)
        if spatial == 0:
            sizes = shape[1:]
    if m.opset < 7:
        written["is_test"] = m.one(1, 1, 1, 1, 0)
    if m.opset < 6:
        written["consumed_inputs"] = [0, 0, 0, 1, 1]
    if m.opset >= 14:
        written["training_mode"] = training = m.one(None, 0, 1)
        outputs = m.one((True,), (True, True, True), (True, False, True)) if training else (True,)
    elif 7 <= m.opset < 14 and written.get("spatial") != 0 and m.one(*[False] * 3, True):
        outputs = (True,) * 5 if m.flag() else (True, True, True, False, True)
    kinds = (("any", other), ("any", other), ("any", moments), ("positive", moments))
    inputs = [m.data(elem, shape)] + [m.data(e, sizes, kind) for kind, e in kinds]
    m.node(inputs, outputs, **written)


def instance(m: Making) -> None:
    least = 2 if m.opset < 6 else 1
    shape = (m.int(1, 3), m.int(1, 3), *m.shape(least, 2 if m.opset < 6 else 3, zero=False))
    elem = m.elem()
    consumed = m.maybe([0, 0, 0]) if m.opset < 6 else None
    inputs = [m.data(elem, shape), m.data(elem, (shape[1],)), m.data(elem, (shape[1],))]
    m.node(inputs, epsilon=m.maybe(m.number(0.125, 1)), consumed_inputs=consumed)


def layer(m: Making) -> None:
    elem, shape = m.elem(), m.shape(1, 4, zero=False)
    axis = m.axis(len(shape))
    inner = shape[axis % len(shape) :]
    inputs = [m.data(elem, shape), m.data(elem, inner if m.flag() else m.stretched(inner))]
    if m.op == "LayerNormalization" and m.flag():
        inputs.append(m.data(elem, inner if m.flag() else m.stretched(inner)))
    outputs = (
        m.one((True,), (True,), (True, True, True), (True, False, True))
        if m.op == "LayerNormalization"
        else (True,)
    )
    m.node(
        inputs,
        outputs,
        axis=m.one(axis, axis, None if axis in (-1, len(shape) - 1) else axis),
        epsilon=m.maybe(m.number(0.125, 1)),
        stash_type=m.one(None, 1),
    )


def group(m: Making) -> None:
    groups, per = m.int(1, 3), m.int(1, 2)
    channels = groups * per
    elem = m.elem()
    size = (groups,) if m.opset < 21 else (channels,)
    x = m.data(elem, (m.int(1, 2), channels, *m.shape(0, 2, zero=False)))
    m.node(
        [x, m.data(elem, size), m.data(elem, size)],
        num_groups=groups,
        epsilon=m.maybe(m.number(0.125, 1)),
        stash_type=m.one(None, 1) if m.opset >= 21 else None,
    )


def lrn(m: Making) -> None:
    shape = (m.int(1, 2), m.int(1, 5), *m.shape(2, 2, zero=False))
    numbers = {
        "alpha": m.maybe(m.number(0.125, 1)),
        "beta": m.maybe(m.number(0.25, 1)),
        "bias": m.maybe(m.number(0.5, 2)),
    }
    m.node([m.data(m.elem(), shape)], size=m.int(1, 5), **numbers)


def lp(m: Making) -> None:
    elem, shape = m.elem(), m.shape(1, 4, zero=False)
    axis = m.int(-1, len(shape) - 1)
    m.node([m.data(elem, shape, "positive")], axis=m.maybe(axis), p=m.one(None, 1, 2))


def mean_variance(m: Making) -> None:
    elem, shape = m.elem(), (*m.shape(3, 3, zero=False), m.int(1, 3))
    m.node(
        [m.data(elem, shape)], axes=m.maybe([int(a) for a in m.shuffled(range(4))[: m.int(1, 4)]])
    )


def dropout(m: Making) -> None:
    elem, shape = m.elem(), m.shape()
    x = m.data(elem, shape)
    outputs = m.one((True,), (True, True))
    if m.opset < 12:
        attributes = schemas.schema("", "Dropout", m.opset).attributes
        consumed = m.maybe([0]) if "consumed_inputs" in attributes else None
        test = 1 if "is_test" in attributes else None
        m.node(
            [x], (True,), ratio=m.maybe(m.number(0, 0.5)), is_test=test, consumed_inputs=consumed
        )
        return
    inputs = [
        x,
        m.feed(m.array(m.elem(1, ("float", "double", "float16")), (), "any") * 0, fixed=True)
        if m.flag()
        else "",
    ]
    if m.flag():
        inputs.append(m.feed(np.array(False), fixed=True))
    m.node(inputs, outputs, seed=m.maybe(m.int(0, 3)))


NORMALIZATION: Family = {
    **rows("BatchNormalization", batch),
    **rows("InstanceNormalization", instance),
    **rows("LayerNormalization RMSNormalization", layer),
    **rows("GroupNormalization", group),
    **rows("LRN", lrn),
    **rows("LpNormalization", lp),
    **rows("MeanVarianceNormalization", mean_variance),
    **rows("Dropout", dropout),
}
