# SPDX-License-Identifier: Apache-2.0
"""Operators without large inputs: constants, ranges, casts, random numbers."""

from __future__ import annotations

import numpy as np
from opshift.model import arrays
from opshift.opsets import schemas

from families.making import FLOATS, INTS, Family, Making, rows

NUMBERS = (*FLOATS, *INTS, "bool", "bfloat16")


def constant(m: Making) -> None:
    elem = m.elem(0)
    if m.opset >= 12 and m.flag():
        name = m.one(
            "value_int",
            "value_ints",
            "value_float",
            "value_floats",
            "value_string",
            "value_strings",
        )
        one = {
            "value_int": 3,
            "value_ints": [1, -2],
            "value_float": 0.5,
            "value_floats": [0.5, 1.5],
            "value_string": "a",
            "value_strings": ["a", "", "b"],
        }
        m.node([], **{name: one[name]})
        return
    m.node([], value=arrays.from_array(m.array(elem, m.shape())))


def constant_of_shape(m: Making) -> None:
    schema = schemas.schema("", "ConstantOfShape", m.opset)
    elems = sorted(t[7:-1] for t in schema.output_at(0).types)
    elem = m.one("float", "int64", *elems)
    value = m.maybe(arrays.from_array(m.array(elem, (1,))))
    m.node([m.ints(np.array(m.shape(), np.int64))], value=value)


def eye(m: Making) -> None:
    schema = schemas.schema("", "EyeLike", m.opset)
    elems = [t[7:-1] for t in sorted(schema.output_at(0).types)]
    x = m.data(m.elem(), (m.int(0, 4), m.int(0, 4)))
    m.node(
        [x], k=m.maybe(m.int(-4, 4)), dtype=m.maybe(schemas.element_number(m.one("float", *elems)))
    )


def range_(m: Making) -> None:
    elem = m.elem()
    dtype = m.array(elem, ()).dtype
    fractions = dtype.kind == "f" or elem == "bfloat16"
    start, delta = m.int(-3, 3), m.one(1, 2, -1, -2, *((0.5, 0.25) if fractions else ()))
    limit = start + delta * m.int(-1, 5)
    values = [m.feed(np.array(v).astype(dtype), fixed=m.flag()) for v in (start, limit, delta)]
    m.node(values, stash_type=m.one(None, 1) if m.opset >= 27 else None)


def cast(m: Making) -> None:
    elem = m.elem(0, NUMBERS)
    schema = schemas.schema("", "Cast", m.opset)
    goals = sorted(n for n in NUMBERS if f"tensor({n})" in schema.output_at(0).types)
    to = m.one(*goals)
    x = m.array(elem, m.shape())
    if to.startswith("uint") and x.dtype.kind != "b":
        x = np.abs(x.astype(np.float64)).astype(x.dtype)
    number = schemas.element_number(to)
    m.node([m.feed(x)], to=to.upper() if m.opset < 6 else number)


def cast_like(m: Making) -> None:
    elem, other = m.elem(0, NUMBERS), m.elem(1, NUMBERS)
    x = np.abs(m.array(elem, m.shape()).astype(np.float64))
    m.node([m.feed(x.astype(m.array(elem, ()).dtype)), m.data(other, m.shape())])


def bit_cast(m: Making) -> None:
    pairs = (
        ("float", "int32"),
        ("int32", "uint32"),
        ("double", "int64"),
        ("int64", "uint64"),
        ("int8", "uint8"),
        ("float16", "uint16"),
    )
    elem, to = m.one(*pairs)
    m.node([m.data(elem, m.shape())], to=schemas.element_number(to))


def drawn(m: Making) -> None:
    numbers = (
        {"mean": (-1, 1), "scale": (0.5, 2)}
        if "Normal" in m.op
        else {"low": (-2, 0), "high": (1, 2)}
    )
    written = {k: m.maybe(m.number(*v)) for k, v in numbers.items()}
    written["seed"] = m.maybe(float(m.int(1, 5)))
    written["dtype"] = m.one(None, 1, 10, 11)
    if m.op.endswith("Like"):
        m.node([m.data(m.elem(0, FLOATS), m.shape())], **written)
    else:
        m.node([], shape=list(m.shape(1)), **written)


def bernoulli(m: Making) -> None:
    x = (m.array(m.elem(0, FLOATS), m.shape(), "unit") + 1) / 2
    m.node([m.feed(x)], dtype=m.one(None, 1, 6, 7, 9, 10), seed=m.maybe(1.0))


GENERATORS: Family = {
    **rows("Constant", constant),
    **rows("ConstantOfShape", constant_of_shape),
    **rows("EyeLike", eye),
    **rows("Range", range_),
    **rows("Cast", cast),
    **rows("CastLike", cast_like),
    **rows("BitCast", bit_cast),
    **rows("RandomNormal RandomUniform RandomNormalLike RandomUniformLike", drawn),
    **rows("Bernoulli", bernoulli),
}
