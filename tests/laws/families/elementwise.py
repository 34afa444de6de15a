# SPDX-License-Identifier: Apache-2.0
"""Elementwise operators with one input, with two that broadcast, and with many."""

from __future__ import annotations

from typing import Any

import numpy as np
from opshift.opsets import schemas

from families.making import FLOATS, Family, Making, Recipe, rows


def _consumed(m: Making, count: int) -> list[int] | None:
    """The attribute `consumed_inputs`, which had no effect, and which opset 6 removed."""
    attributes = schemas.schema("", m.op, m.opset).attributes
    return m.maybe([0] * count) if "consumed_inputs" in attributes else None


def unary(kind: str = "special", **attributes: tuple[float, float]) -> Recipe:
    def made(m: Making) -> None:
        x = m.data(m.elem(), m.shape(), kind if m.flag() else "any")
        written = {k: m.maybe(m.number(*v)) for k, v in attributes.items()}
        m.node([x], consumed_inputs=_consumed(m, 1), **written)

    return made


def selu(m: Making) -> None:
    x = m.data(m.elem(), m.shape())
    written = {k: m.maybe(m.number(0.5, 2)) for k in ("alpha", "gamma")}
    m.node([x], consumed_inputs=_consumed(m, 1), **written)


def is_inf(m: Making) -> None:
    x = m.data(m.elem(), m.shape(), "special")
    m.node([x], **{f"detect_{k}": m.maybe(m.int(0, 1)) for k in ("negative", "positive")})


def clip(m: Making) -> None:
    elem, shape = m.elem(), m.shape()
    x = m.data(elem, shape, "special")
    low, high = m.maybe(m.number(-3, 1)), m.maybe(m.number(-1, 3))
    if m.opset < 11:
        m.node([x], min=low, max=high, consumed_inputs=_consumed(m, 1))
        return
    bounds = ["" if b is None else m.feed(_whole(b, elem, m), fixed=True) for b in (low, high)]
    m.node([x, *bounds])


def _whole(number: float, elem: str, m: Making) -> np.ndarray:
    dtype = m.array(elem, ()).dtype
    unsigned = dtype.kind == "u"
    return np.array(abs(number) if unsigned else number).astype(dtype)


def prelu(m: Making) -> None:
    elem = m.elem()
    shape = m.shape(1 if m.opset < 7 else 0)
    if m.opset >= 7:
        slope = m.stretched(shape)
    else:
        channels = (shape[1],) if len(shape) > 1 else (1,)
        slope = m.one((1,), channels)
    inputs = [m.data(elem, shape), m.data(elem, slope)]
    m.node(inputs, consumed_inputs=_consumed(m, 2))


def binary(second: str = "any", *, first: str = "any", **choices: tuple[object, ...]) -> Recipe:
    """Two inputs that broadcast, below opset 7 by the older rule."""

    def made(m: Making) -> None:
        elem = m.elem()
        shape = m.shape()
        written = {k: m.one(*v) for k, v in choices.items()}
        if m.opset >= 7:
            shapes = [shape, m.stretched(shape)]
            if m.flag():
                shapes.reverse()
        else:
            legacy = _legacy(m, shape)
            shapes = [shape, legacy.pop("shape")]
            written |= legacy
        kinds = (first, second)
        inputs = [m.data(elem, s, kind) for s, kind in zip(shapes, kinds, strict=True)]
        m.node(inputs, consumed_inputs=_consumed(m, 2), **written)

    return made


def _legacy(m: Making, shape: tuple[int, ...]) -> dict[str, Any]:
    """Up to opset 6, the second input is one element, or a part of the shape from an axis on."""
    how = m.one("equal", "plain", "one", "suffix", "block")
    if how in ("equal", "plain"):
        return {"shape": shape, "broadcast": 0 if how == "plain" else None}
    if how == "one":
        return {"shape": m.one((), (1,)) if shape else (), "broadcast": 1}
    begin = m.int(0, len(shape))
    if how == "suffix":
        return {"shape": shape[begin:], "broadcast": 1}
    end = m.int(begin, len(shape))
    return {"shape": shape[begin:end], "broadcast": 1, "axis": begin}


def power(m: Making) -> None:
    if m.opset < 12:
        binary(first="positive")(m)
        return
    elem, shape = m.elem(), m.shape()
    kind = "any" if elem.startswith("int") else "positive"
    x = m.data(elem, shape, kind)
    exponent = m.elem(1)
    values = np.abs(m.array(exponent, m.stretched(shape)).astype(np.float64))
    dtype = m.array(exponent, ()).dtype
    if m.flag():
        values = np.asarray(m.one(0, 1, 2, 3))
    m.node([x, m.feed(np.rint(values).astype(dtype), fixed=m.flag())])


def modulo(m: Making) -> None:
    elem, shape = m.elem(), m.shape()
    inputs = [m.data(elem, shape), m.data(elem, m.stretched(shape), "nonzero")]
    must = elem in (*FLOATS, "bfloat16") and m.opset < 28
    m.node(inputs, fmod=1 if must else m.one(None, 0, 1))


def bit_shift(m: Making) -> None:
    elem, shape = m.elem(), m.shape()
    y = np.abs(m.array(elem, m.stretched(shape)).astype(np.int64)) % 8
    x = m.data(elem, shape)
    m.node([x, m.feed(y.astype(m.array(elem, ()).dtype))], direction=m.one("LEFT", "RIGHT"))


def variadic(m: Making) -> None:
    elem, shape = m.elem(), m.shape()
    count = m.int(1, 4)
    shapes = [m.stretched(shape) if m.opset >= 8 else shape for _ in range(count)]
    kind = m.one("any", "any", "special") if m.op in ("Max", "Min") else "any"
    m.node([m.data(elem, s, kind) for s in shapes], consumed_inputs=_consumed(m, count))


def where(m: Making) -> None:
    elem, shape = m.elem(1), m.shape()
    m.node(
        [
            m.data("bool", m.stretched(shape)),
            m.data(elem, shape, m.one("any", "special")),
            m.data(elem, m.stretched(shape)),
        ]
    )


ACTIVATIONS: Family = {
    **rows("Relu Sigmoid Tanh Softplus Softsign Erf HardSwish", unary("any")),
    **rows("Elu", unary("any", alpha=(0.25, 2))),
    **rows("Celu", unary("any", alpha=(0.25, 2))),
    **rows("LeakyRelu", unary("special", alpha=(-1, 2))),
    **rows("ThresholdedRelu", unary("any", alpha=(-1, 2))),
    **rows("HardSigmoid", unary("any", alpha=(0.125, 1), beta=(-1, 1))),
    **rows("Shrink", unary("any", lambd=(0, 2), bias=(-1, 2))),
    **rows("Swish", unary("any", alpha=(0.25, 2))),
    **rows("Mish", unary("any")),
    **rows("Gelu", lambda m: _gelu(m)),
    **rows("SwiGLU", lambda m: _swiglu(m)),
    **rows("Selu", selu),
    **rows("Clip", clip),
    **rows("PRelu", prelu),
}


def _gelu(m: Making) -> None:
    m.node([m.data(m.elem(), m.shape())], approximate=m.one(None, "none", "tanh"))


def _swiglu(m: Making) -> None:
    elem, shape = m.elem(), m.shape()
    m.node([m.data(elem, shape), m.data(elem, shape)], alpha=m.maybe(m.number(0.25, 2)))


UNARY: Family = {
    **rows("Abs Neg Ceil Floor Round Exp Not Sign IsNaN Identity", unary()),
    **rows("Sin Cos Tan Sinh Cosh Asinh Atan", unary("any")),
    **rows("Sqrt Log", unary("positive")),
    **rows("Reciprocal", unary("nonzero")),
    **rows("Acos Asin Atanh", lambda m: _of(m, "unit")),
    **rows("Acosh", lambda m: _of(m, "above")),
    **rows("IsInf", is_inf),
    **rows("BitwiseNot", unary("any")),
}


def _of(m: Making, kind: str) -> None:
    elem = m.elem()
    x = m.array(elem, m.shape(), "unit" if kind == "unit" else "positive")
    m.node([m.feed(x if kind == "unit" else (x + 1).astype(x.dtype))])


BINARY: Family = {
    **rows("Add Sub Mul", binary()),
    **rows("Div", binary("nonzero")),
    **rows("Pow", power),
    **rows("Mod", modulo),
    **rows("BitShift", bit_shift),
    **rows("BitwiseAnd BitwiseOr BitwiseXor", binary("special", first="special")),
}
COMPARISON: Family = {
    **rows("And Or Xor Equal", binary("special", first="special")),
    **rows("Less Greater GreaterOrEqual LessOrEqual", binary("special", first="special")),
    **rows("Where", where),
}
VARIADIC: Family = rows("Max Min Sum Mean", variadic)
