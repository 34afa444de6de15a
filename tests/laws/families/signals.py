# SPDX-License-Identifier: Apache-2.0
"""Signals: Fourier transforms and windows."""

from __future__ import annotations

import numpy as np

from families.making import Family, Making, rows


def dft(m: Making) -> None:
    elem = m.one("float", "double")
    inverse, one_sided = m.maybe(m.int(0, 1)), None
    real = 2 if inverse else m.int(1, 2)
    if real == 1:
        one_sided = m.maybe(m.int(0, 1))
    rank = m.int(3, 4) if m.opset < 20 else m.int(2, 4)
    shape = (*(m.int(1, 4) for _ in range(rank - 1)), real)
    axis = m.int(-rank, -2) if m.flag() else m.int(0, rank - 2)
    if m.opset < 20 and axis == 0:
        axis = 1
    inputs = [m.data(elem, shape)]
    inputs.append(m.ints(np.array(m.int(1, 5))) if m.flag() else "")
    if m.opset >= 20:
        inputs.append(m.ints(np.array(axis)) if m.flag() else "")
        m.node(inputs, inverse=inverse, onesided=one_sided)
    else:
        m.node(inputs, inverse=inverse, onesided=one_sided, axis=m.maybe(axis))


def stft(m: Making) -> None:
    elem, length, frame = m.one("float", "double"), m.int(6, 10), m.int(2, 5)
    inputs = [m.data(elem, (m.int(1, 2), length, 1)), m.ints(np.array(m.int(1, 3)))]
    how = m.one("window", "length", "both")
    inputs.append(
        m.feed(m.array(elem, (frame,), "positive"), fixed=True) if how != "length" else ""
    )
    inputs.append(m.ints(np.array(frame)) if how != "window" else "")
    m.node(inputs, onesided=m.maybe(m.int(0, 1)))


def window(m: Making) -> None:
    size = m.ints(np.array(m.int(2, 8)), m.one(np.int64, np.int32))
    m.node([size], periodic=m.maybe(m.int(0, 1)), output_datatype=m.one(None, 1, 10, 11))


def mel(m: Making) -> None:
    kind = m.one(np.int64, np.int32)
    numbers = [m.ints(np.array(n), kind) for n in (m.int(2, 5), m.int(8, 20), 8192)]
    edges = [m.ints(np.array(v), np.float32) for v in (0.0, 4096.0)]
    m.node([*numbers, *edges], output_datatype=m.one(None, 1, 11))


SIGNALS: Family = {
    **rows("DFT", dft),
    **rows("STFT", stft),
    **rows("HannWindow HammingWindow BlackmanWindow", window),
    **rows("MelWeightMatrix", mel),
}
