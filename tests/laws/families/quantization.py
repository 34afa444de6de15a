# SPDX-License-Identifier: Apache-2.0
"""Operators that convert numbers to small integers and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from families.making import Family, Making, rows


def _layout(m: Making, shape: tuple[int, ...]) -> tuple[tuple[int, ...], dict[str, Any]]:
    """The shape of the scales and the attributes that say so."""
    how = m.one("all", "axis") if m.opset >= 13 and shape else "all"
    if how == "axis" and m.opset >= 21 and m.flag():
        how = "block"
    if how == "all":
        return (), {}
    axis = m.axis(len(shape))
    if how == "axis":
        return (shape[axis],), {"axis": axis if axis != 1 or m.flag() else None}
    size = m.one(1, 2)
    if shape[axis] % size:
        size = 1
    scales = list(shape)
    scales[axis] //= size
    return tuple(scales), {"axis": axis, "block_size": size}


def quantize(m: Making) -> None:
    elem, shape = m.elem(0), m.shape(0, 3, zero=False)
    scale, written = _layout(m, shape)
    zero = m.elem(2, ("int8", "uint8", "int16", "uint16", "int4", "uint4", "int2", "uint2"))
    dtype = m.array(zero, ()).dtype
    other = elem if elem != "int32" else "float"
    if m.opset >= 23:
        other = m.elem(1, ("float", "float16", "bfloat16"))
    x = m.array(elem, shape)
    step = np.asarray(2.0 ** m.rng.integers(-3, 2, scale)).astype(m.array(other, ()).dtype)
    inputs = [m.feed(x), m.feed(step, fixed=True)]
    if m.flag() or zero != "uint8":
        inputs.append(m.feed(np.asarray(m.rng.integers(0, 2, scale)).astype(dtype), fixed=True))
    elif m.opset >= 21 and m.flag():
        written["output_dtype"] = 3
    m.node(inputs, **written)


def dequantize(m: Making) -> None:
    elem = m.elem(
        0, ("int8", "uint8", "int32", "int16", "uint16", "int4", "uint4", "int2", "uint2")
    )
    shape = m.shape(0, 3, zero=False)
    scale, written = _layout(m, shape)
    other = m.elem(1, ("float", "float16", "bfloat16"))
    step = np.abs(m.array(other, scale).astype(np.float64)) + 0.25
    inputs = [m.data(elem, shape), m.feed(step.astype(m.array(other, ()).dtype), fixed=True)]
    if elem != "int32" and m.flag():
        inputs.append(
            m.feed(
                np.asarray(m.rng.integers(0, 2, scale)).astype(m.array(elem, ()).dtype), fixed=True
            )
        )
    m.node(inputs, **written)


def dynamic(m: Making) -> None:
    m.node([m.data("float", m.shape(0, 3, zero=False))], 3)


def integer_product(m: Making) -> None:
    a, b = m.elem(0), m.elem(1)
    n, k, o = m.int(1, 3), m.int(1, 3), m.int(1, 3)
    batch = m.shape(0, 1, zero=False)
    inputs = [m.data(a, (*batch, n, k)), m.data(b, (k, o))]
    if m.flag():
        inputs.append(m.data(a, m.one((), (1,))) if m.flag() else "")
        inputs.append(m.data(b, m.one((), (o,))) if m.flag() else "")
    m.node(inputs)


def _scale(m: Making) -> str:
    return m.ints(np.array(m.one(0.5, 0.25, 1.0)), np.float32)


def quantized_product(m: Making) -> None:
    a, b, y = (m.elem(i, ("int8", "uint8")) for i in (0, 3, 7))
    n, k, o = m.int(1, 3), m.int(1, 3), m.int(1, 3)
    m.node([
        m.data(a, (n, k)), _scale(m), m.data(a, ()), m.data(b, (k, o)), _scale(m), m.data(b, ()), _scale(m), m.data(y, ()),
    ])  # fmt: skip


def quantized_conv(m: Making) -> None:
    a, b, y = (m.elem(i, ("int8", "uint8")) for i in (0, 3, 7))
    inputs = [
        m.data(a, (1, 2, 3, 3)), _scale(m), m.data(a, ()), m.data(b, (2, 2, 2, 2)), _scale(m), m.data(b, ()), _scale(m), m.data(y, ()),
    ]  # fmt: skip
    if m.flag():
        inputs.append(m.data("int32", (2,)))
    m.node(inputs, pads=m.one(None, [1, 1, 0, 0]))


QUANTIZATION: Family = {
    **rows("QuantizeLinear", quantize),
    **rows("DequantizeLinear", dequantize),
    **rows("DynamicQuantizeLinear", dynamic),
    **rows("MatMulInteger", integer_product),
    **rows("QLinearMatMul", quantized_product),
    **rows("QLinearConv", quantized_conv),
}
