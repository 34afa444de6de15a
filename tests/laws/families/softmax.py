# SPDX-License-Identifier: Apache-2.0
"""The Softmax family and the losses."""

from __future__ import annotations

import numpy as np

from families.making import Family, Making, rows


def softmax(m: Making) -> None:
    elem, shape = m.elem(), m.shape(1, 4)
    default = 1 if m.opset < 13 else -1
    axis = m.axis(len(shape))
    written = None if m.one(True, False, False) and default < len(shape) else axis
    x = m.array(elem, shape)
    if m.op == "Hardmax":
        x = np.round(x).astype(x.dtype)
    m.node([m.feed(x)], axis=written)


def loss(m: Making) -> None:
    elem = m.elem()
    batch, classes = m.int(1, 3), m.int(1, 4)
    rest = m.shape(0, 2, zero=False)
    labels = m.rng.integers(0, classes, (batch, *rest)).astype(m.one(np.int32, np.int64))
    ignore = None
    if m.flag():
        ignore = m.one(-100, -1, 0, classes)
        if m.flag():
            labels.reshape(-1)[0] = ignore
    inputs = [m.data(elem, (batch, classes, *rest)), m.feed(labels)]
    if m.flag():
        inputs.append(m.data(elem, (classes,), "positive"))
    outputs = m.one((True,), (True, True)) if m.op.startswith("Softmax") else (True,)
    m.node(inputs, outputs, reduction=m.one(None, "none", "sum", "mean"), ignore_index=ignore)


SOFTMAX: Family = {
    **rows("Softmax LogSoftmax Hardmax", softmax),
    **rows("NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss", loss),
}
