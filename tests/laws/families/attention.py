# SPDX-License-Identifier: Apache-2.0
"""Attention and the operators around it."""

from __future__ import annotations

from typing import Any

import numpy as np

from families.making import Family, Making, rows


def attention(m: Making) -> None:
    elem = m.one("float", "float", "float", "double", "float16")
    batch, heads, share = m.int(1, 2), m.int(1, 2), m.int(1, 2)
    q_heads, new, keys, size, out = heads * share, m.int(1, 3), m.int(1, 4), 2, m.one(2, 3)
    flat, cached = m.flag(), m.flag()
    past = m.int(1, 2) if cached else 0
    written: dict[str, Any] = {"is_causal": m.maybe(m.int(0, 1)), "scale": m.maybe(0.5)}
    written["softcap"] = m.one(None, 0.0, 2.0)
    shapes = [(batch, q_heads, new, size), (batch, heads, keys, size), (batch, heads, keys, out)]
    if flat:
        shapes = [(b, t, h * d) for b, h, t, d in shapes]
        written |= {"q_num_heads": q_heads, "kv_num_heads": heads}
    total = past + keys
    inputs = [m.data(elem, s) for s in shapes]
    mask = m.one("", "bool", "float")
    nonpad = m.opset >= 24 and not cached and m.one(True, False, False)
    if mask:
        shape = m.one(
            (new, total), (1, 1, new, total), (batch, 1, new, total), (batch, q_heads, new, total)
        )
        inputs.append(m.data("bool" if mask == "bool" else elem, shape))
    else:
        inputs.append("")
    inputs += [m.data(elem, (batch, heads, past, d)) for d in (size, out)] if cached else ["", ""]
    if nonpad:
        inputs.append(m.feed(m.rng.integers(1, keys + 1, batch)))
    if m.opset >= 25:
        written |= {
            k: m.one(None, None, -1, 0, 1) for k in ("left_window_size", "right_window_size")
        }
    outputs: tuple[bool, ...] = (True,)
    if cached:
        outputs = (True, True, True)
    if m.flag():
        outputs = (*outputs, *([False] * (3 - len(outputs))), True)
        written["qk_matmul_output_mode"] = m.one(None, 0, 1, 2, 3)
    m.node(inputs, outputs, **written)


def rotary(m: Making) -> None:
    elem, batch, heads, length, half = m.elem(), m.int(1, 2), m.int(1, 2), m.int(1, 3), m.int(1, 2)
    size = 2 * half
    flat = m.flag()
    shape = (batch, length, heads * size) if flat else (batch, heads, length, size)
    partial = m.one(None, 0, 2) if half > 1 else m.one(None, 0)
    width = 1 if partial == 2 else half
    given = m.flag()
    cache = (5, width) if given else (batch, length, width)
    inputs = [m.data(elem, shape), m.data(elem, cache), m.data(elem, cache)]
    if given:
        inputs.append(m.feed(m.rng.integers(0, 5, (batch, length))))
    needed = flat or partial
    m.node(
        inputs,
        interleaved=m.maybe(m.int(0, 1)),
        num_heads=heads if needed else None,
        rotary_embedding_dim=partial,
    )


def linear(m: Making) -> None:
    elem = m.one("float", "float", "float16")
    batch, heads, share, length, k, v = m.int(1, 2), m.int(1, 2), m.int(1, 2), m.int(1, 3), 2, 3
    rule = m.one("linear", "gated", "delta", "gated_delta")
    q_heads = heads * share
    inputs = [
        m.data(elem, (batch, length, q_heads * k)),
        m.data(elem, (batch, length, heads * k)),
        m.data(elem, (batch, length, heads * v)),
    ]
    inputs.append(m.data(elem, (batch, heads, k, v)) if m.flag() else "")
    decay = -np.abs(m.array(elem, (batch, length, m.one(heads, heads * k))).astype(np.float64))
    inputs.append(m.feed(decay.astype(m.array(elem, ()).dtype)) if rule.startswith("gated") else "")
    inputs.append(
        m.data(elem, (batch, length, heads), "positive") if rule.endswith("delta") else ""
    )
    m.node(
        inputs,
        (True, True),
        q_num_heads=q_heads,
        kv_num_heads=heads,
        update_rule=rule,
        scale=m.maybe(0.5),
    )


def causal_conv(m: Making) -> None:
    elem, batch, channels, length, k = (
        m.one("float", "float", "float16"),
        m.int(1, 2),
        m.int(1, 3),
        m.int(1, 4),
        m.int(1, 3),
    )
    inputs = [m.data(elem, (batch, channels, length)), m.data(elem, (channels, 1, k))]
    inputs.append(m.data(elem, (channels,)) if m.flag() else "")
    inputs.append(m.data(elem, (batch, channels, k - 1)) if m.flag() else "")
    m.node(inputs, (True, True), activation=m.one(None, "none", "silu", "swish"))


ATTENTION: Family = {
    **rows("Attention", attention),
    **rows("RotaryEmbedding", rotary),
    **rows("LinearAttention", linear),
    **rows("CausalConvWithState", causal_conv),
}
