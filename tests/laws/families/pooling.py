# SPDX-License-Identifier: Apache-2.0
"""Convolution and pooling."""

from __future__ import annotations

from typing import Any

import numpy as np
from opshift.opsets import schemas

from families.making import Family, Making, rows


def _window(m: Making, most: int = 2) -> tuple[list[int], list[int], dict[str, Any]]:
    """Spatial sizes, a kernel, and attributes under which the window always fits."""
    rank = m.int(1, most)
    kernel = [m.int(1, 3) for _ in range(rank)]
    size = [k + m.int(0, 4) for k in kernel]
    written: dict[str, Any] = {"strides": m.maybe([m.int(1, 3) for _ in range(rank)])}
    auto = m.one(None, None, "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
    written["auto_pad"] = auto
    if auto in (None, "NOTSET") and m.flag():
        written["pads"] = [m.int(0, k - 1) for _ in "be" for k in kernel]
    return size, kernel, written


def _dilated(m: Making, size: list[int], kernel: list[int]) -> list[int] | None:
    dilations = [m.int(1, 2) for _ in kernel] if m.flag() else None
    if dilations:
        for i, d in enumerate(dilations):
            size[i] = max(size[i], (kernel[i] - 1) * d + 1)
    return dilations


def pool(m: Making) -> None:
    attributes = schemas.schema("", m.op, m.opset).attributes
    size, kernel, written = _window(m)
    if "dilations" in attributes:
        written["dilations"] = _dilated(m, size, kernel)
    if "ceil_mode" in attributes:
        written["ceil_mode"] = m.maybe(m.int(0, 1))
    if "count_include_pad" in attributes:
        written["count_include_pad"] = m.maybe(m.int(0, 1))
    outputs: tuple[bool, ...] = (True,)
    if m.op == "MaxPool" and m.opset >= 8:
        outputs = m.one((True,), (True, True))
        if len(outputs) == 2:
            written["storage_order"] = m.one(None, 0, 1)
    if m.op == "LpPool":
        written["p"] = _power(m)
    x = m.data(m.elem(), (m.int(1, 2), m.int(1, 2), *size))
    m.node([x], outputs, kernel_shape=kernel, **written)


def _power(m: Making) -> float | int | None:
    """The exponent, which was a float in the first version, and may be a fraction there."""
    return m.one(None, 1.0, 2.0, 3.0, 1.5) if m.opset < 2 else m.one(None, 1, 2, 3)


def whole(m: Making) -> None:
    p = _power(m) if m.op == "GlobalLpPool" else None
    m.node([m.data(m.elem(), (m.int(1, 2), m.int(1, 3), *m.shape(1, 3, zero=False)))], p=p)


def conv(m: Making) -> None:
    size, kernel, written = _window(m)
    written["dilations"] = _dilated(m, size, kernel)
    if written["dilations"] and (written["auto_pad"] or "").startswith("SAME"):
        written["dilations"] = None
    group, per, out = m.int(1, 2), m.int(1, 2), m.int(1, 2)
    written["group"] = group if group > 1 else m.maybe(1)
    written["kernel_shape"] = m.maybe(kernel)
    elem = m.elem(0)
    x = m.data(elem, (m.int(1, 2), group * per, *size))
    if m.op == "ConvInteger":
        other = m.elem(1)
        inputs = [x, m.data(other, (group * out, per, *kernel))]
        if m.flag():
            inputs.append(m.data(elem, ()) if m.flag() else "")
            inputs.append(m.data(other, ()) if m.flag() else "")
        m.node(inputs, **written)
        return
    inputs = [x, m.data(elem, (group * out, per, *kernel))]
    if m.flag():
        inputs.append(m.data(elem, (group * out,)))
    m.node(inputs, **written)


def transposed(m: Making) -> None:
    size, kernel, written = _window(m)
    rank = len(kernel)
    written["dilations"] = m.maybe([m.int(1, 2) for _ in kernel])
    strides = written["strides"] or [1] * rank
    if m.flag() and any(s > 1 for s in strides):
        written["output_padding"] = [m.int(0, s - 1) for s in strides]
    group, per, out = m.int(1, 2), m.int(1, 2), m.int(1, 2)
    elem = m.elem()
    inputs = [m.data(elem, (1, group * per, *size)), m.data(elem, (group * per, out, *kernel))]
    if m.flag():
        inputs.append(m.data(elem, (group * out,)))
    m.node(inputs, group=group if group > 1 else None, kernel_shape=m.maybe(kernel), **written)


def deformed(m: Making) -> None:
    elem, h, w = m.elem(), m.int(2, 4), m.int(2, 4)
    kh, kw = m.int(1, 2), m.int(1, 2)
    oh, ow = h - kh + 1, w - kw + 1
    channels = m.int(1, 2)
    inputs = [
        m.data(elem, (1, channels, h, w)), m.data(elem, (2, channels, kh, kw)),
        m.data(elem, (1, 2 * kh * kw, oh, ow)),
    ]  # fmt: skip
    if m.flag():
        inputs.append(m.data(elem, (2,)) if m.flag() else "")
        inputs.append(m.data(elem, (1, kh * kw, oh, ow)) if m.flag() else "")
    m.node(inputs, kernel_shape=m.maybe([kh, kw]), pads=m.one(None, [0, 0, 0, 0]))


def unpool(m: Making) -> None:
    elem, h, w = m.elem(0), m.int(1, 3), m.int(1, 3)
    places = np.sort(m.rng.permutation(4 * h * w)[: h * w]).reshape(1, 1, h, w)
    m.node(
        [m.data(elem, (1, 1, h, w)), m.feed(places.astype(np.int64))],
        kernel_shape=[2, 2],
        strides=[2, 2],
    )


def roi_pool(m: Making) -> None:
    x = m.data("float", (1, 2, 4, 5))
    rois = np.array([[0, 0, 0, 3, 2], [0, 1, 1, 4, 3]], np.float32)[: m.int(1, 2)]
    m.node(
        [x, m.feed(rois)],
        pooled_shape=[m.int(1, 2), m.int(1, 2)],
        spatial_scale=m.one(None, 1.0, 0.5),
    )


def columns(m: Making) -> None:
    block, image = [m.int(1, 2), m.int(1, 2)], [m.int(2, 4), m.int(2, 4)]
    known = {
        "strides": m.maybe([m.int(1, 2), m.int(1, 2)]),
        "dilations": m.maybe([m.int(1, 2), 1]),
        "pads": m.maybe([m.int(0, 1) for _ in range(4)]),
    }
    count = 1
    for i in range(2):
        d, s = (known[k][i] if known[k] else 1 for k in ("dilations", "strides"))
        pads = known["pads"] or [0] * 4
        room = image[i] + pads[i] + pads[i + 2] - (d * (block[i] - 1) + 1)
        count *= max(room // s + 1, 0)
    elem = m.elem(0, ("float", "double", "float16", "int64", "int32", "bfloat16"))
    m.node(
        [m.data(elem, (m.int(1, 2), 2 * block[0] * block[1], count)), m.ints(image), m.ints(block)],
        **known,
    )


POOLING: Family = {
    **rows("MaxPool AveragePool LpPool", pool),
    **rows("GlobalAveragePool GlobalMaxPool GlobalLpPool", whole),
    **rows("MaxUnpool", unpool),
    **rows("MaxRoiPool", roi_pool),
}
CONVOLUTION: Family = {
    **rows("Conv ConvInteger", conv),
    **rows("ConvTranspose", transposed),
    **rows("DeformConv", deformed),
    **rows("Col2Im", columns),
}
