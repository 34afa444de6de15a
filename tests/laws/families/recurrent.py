# SPDX-License-Identifier: Apache-2.0
"""RNN, GRU, LSTM."""

from __future__ import annotations

from typing import Any

import numpy as np
from opshift.opsets import schemas

from families.making import Family, Making, rows

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def recurrent(m: Making) -> None:
    attributes = schemas.schema("", m.op, m.opset).attributes
    gates, elem = GATES[m.op], m.elem()
    time, batch, width, hidden = m.int(1, 3), m.int(1, 2), m.int(1, 2), m.int(1, 2)
    direction = m.one("forward", "forward", "reverse", "bidirectional")
    ways = 2 if direction == "bidirectional" else 1
    layout = m.one(None, 0, 1) if "layout" in attributes else None
    written: dict[str, Any] = {"hidden_size": hidden, "layout": layout}
    written["direction"] = direction if direction != "forward" or m.flag() else None
    x, start = (time, batch, width), (ways, batch, hidden)
    if layout == 1:
        x, start = (batch, time, width), (batch, ways, hidden)
    inputs = [
        m.data(elem, x),
        m.data(elem, (ways, gates * hidden, width)),
        m.data(elem, (ways, gates * hidden, hidden)),
    ]
    inputs.append(m.data(elem, (ways, 2 * gates * hidden)) if m.flag() else "")
    inputs.append(m.feed(m.rng.integers(1, time + 1, batch).astype(np.int32)) if m.flag() else "")
    inputs.append(m.data(elem, start) if m.flag() else "")
    if m.op == "LSTM":
        inputs.append(m.data(elem, start) if m.flag() else "")
        inputs.append(m.data(elem, (ways, 3 * hidden)) if m.flag() else "")
        written["input_forget"] = m.one(None, 0, 1)
    if "linear_before_reset" in attributes:
        written["linear_before_reset"] = m.one(None, 0, 1)
    written["clip"] = m.maybe(1.0)
    if "output_sequence" in attributes:
        written["output_sequence"] = 1
    outputs = m.one((True, True), (True,), (False, True))
    if m.op == "GRU" and m.opset < 3:
        outputs = m.one((True, True), (False, True))
    if m.op == "LSTM" and m.flag():
        outputs = (outputs[0], outputs[-1] and len(outputs) > 1, True)
    m.node(inputs, outputs, **written)


RECURRENT: Family = rows("RNN GRU LSTM", recurrent)
