# SPDX-License-Identifier: Apache-2.0
"""Sequences and optionals."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper

from families.making import FLOATS, Family, Making, rows

ELEMS = (*FLOATS, "int64", "int32", "bool", "string")


def _sequence(m: Making) -> tuple[str, str, tuple[int, ...], int]:
    """A sequence that is built, split or an input; its element type, a shape and its length."""
    elem, shape, count = m.one("float", *ELEMS), m.shape(1, 2, zero=False), m.int(1, 3)
    how = m.one("built", "built", "given", "inserted")
    if how == "given":
        name = m.feed([m.array(elem, shape) for _ in range(count)])
    else:
        items = [m.data(elem, shape) for _ in range(count)]
        (name,) = m.node(items, op="SequenceConstruct")
        if how == "inserted":
            place = [m.ints(np.array(m.int(-count, count)))] if m.flag() else []
            (name,) = m.node([name, m.data(elem, shape), *place], op="SequenceInsert")
            count += 1
    return name, elem, shape, count


def _place(m: Making, count: int) -> str:
    return m.ints(np.array(m.int(-count, count - 1)), m.one(np.int64, np.int32))


def at(m: Making) -> None:
    name, _, _, count = _sequence(m)
    m.node([name, _place(m, count)])


def length(m: Making) -> None:
    m.node([_sequence(m)[0]])


def joined(m: Making) -> None:
    name, _, shape, _ = _sequence(m)
    new = m.one(None, 0, 1)
    rank = len(shape) + (1 if new else 0)
    m.node([name], axis=m.int(-rank, rank - 1), new_axis=new)


def erased(m: Making) -> None:
    name, _, _, count = _sequence(m)
    place = [_place(m, count)] if m.flag() else []
    (rest,) = m.node([name, *place])
    m.node([rest], op="SequenceLength")
    if count > 1:
        m.node([rest, m.ints(np.array(0))], op="SequenceAt")


def inserted(m: Making) -> None:
    name, elem, shape, count = _sequence(m)
    place = [m.ints(np.array(m.int(-count, count)))] if m.flag() else []
    (grown,) = m.node([name, m.data(elem, shape), *place])
    m.node([grown, m.ints(np.array(m.int(-count - 1, count)))], op="SequenceAt")


def constructed(m: Making) -> None:
    elem = m.elem()
    (made,) = m.node([m.data(elem, m.shape()) for _ in range(m.int(1, 3))])
    m.node([made, m.ints(np.array(0))], op="SequenceAt")


def empty(m: Making) -> None:
    (made,) = m.node([], dtype=m.one(None, 1, 7))
    m.node([made], op="SequenceLength")


def split(m: Making) -> None:
    elem, shape = m.elem(), m.shape(1, 3, zero=False)
    axis = m.int(-len(shape), len(shape) - 1)
    size, inputs = shape[axis], [m.data(elem, shape)]
    keep = None
    how = m.one("none", "scalar", "list")
    if how == "none":
        keep, count = m.one(None, 0, 1), size
    elif how == "scalar":
        part = m.int(1, size)
        inputs.append(m.ints(np.array(part)))
        count = -(-size // part)
    else:
        first = m.int(0, size)
        inputs.append(m.ints([first, size - first]))
        count = 2
    (parts,) = m.node(inputs, axis=axis, keepdims=keep)
    m.node([parts, _place(m, count)], op="SequenceAt")
    if m.flag():
        m.node([parts], op="SequenceLength")


def _optional(m: Making) -> str:
    elem, shape = m.one("float", "int64", "bool"), m.shape(0, 2)
    if m.flag():
        return m.node([m.data(elem, shape)], op="Optional")[0]
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(1, list(shape)))
    return m.feed(m.array("float", shape), declared=kind)


def unwrapped(m: Making) -> None:
    if m.opset >= 18 and m.one(True, False, False):
        m.node([m.data("float", m.shape()) if m.flag() else _sequence(m)[0]])
        return
    m.node([_optional(m)])


def has(m: Making) -> None:
    how = m.one("some", "some", "nothing", "tensor", "absent")
    if how == "nothing":
        kind: Any = helper.make_tensor_type_proto(1, [2])
        m.node(m.node([], op="Optional", type=kind))
    elif how == "tensor" and m.opset >= 18:
        m.node([m.data("float", m.shape())])
    elif how == "absent" and m.opset >= 18:
        m.node([])
    else:
        m.node([_optional(m)])


def wrapped(m: Making) -> None:
    (made,) = m.node([m.data(m.one("float", "int32"), m.shape())])
    if m.one(True, True, False):
        m.node([made], op="OptionalGetElement")


SEQUENCES: Family = {
    **rows("SequenceAt", at),
    **rows("SequenceLength", length),
    **rows("ConcatFromSequence", joined),
    **rows("SequenceErase", erased),
    **rows("SequenceInsert", inserted),
    **rows("SequenceConstruct", constructed),
    **rows("SequenceEmpty", empty),
    **rows("SplitToSequence", split),
    **rows("OptionalGetElement", unwrapped),
    **rows("OptionalHasElement", has),
    **rows("Optional", wrapped),
}
