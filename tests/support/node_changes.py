# SPDX-License-Identifier: Apache-2.0
"""Models with one change: each attribute, constant, input and declared type in turn."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from onnx import (
    AttributeProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TensorShapeProto,
    ValueInfoProto,
    numpy_helper,
)
from opshift.model.walk import nodes

HUGE = 1 << 40
LISTS = {
    AttributeProto.INTS: ("ints", (-1, 0, 1, HUGE)),
    AttributeProto.FLOATS: ("floats", (-1.0, float("nan"))),
    AttributeProto.STRINGS: ("strings", (b"", b"X")),
}
NUMBERS = {
    AttributeProto.INT: ("i", (-(1 << 63), -1, 0, 9, 1 << 31)),
    AttributeProto.FLOAT: ("f", (-1.0, 0.0, float("inf"), float("nan"))),
    AttributeProto.STRING: ("s", (b"", b"X", b"\xff")),
}


def variants(model: ModelProto) -> Iterator[tuple[str, ModelProto]]:
    """Yields a description of each change, and the changed model."""
    for at, node in enumerate(nodes(model)):
        for words, change in _changes_of_node(node):
            changed = _copy(model)
            change(list(nodes(changed))[at])
            yield f"{node.op_type} {words}", changed
    for at, tensor in enumerate(model.graph.initializer):
        for words, other in _tensors(tensor):
            changed = _copy(model)
            changed.graph.initializer[at].CopyFrom(other)
            yield f"{tensor.name} {words}", changed
    for at, value in enumerate(model.graph.input):
        for words, shape in _shapes(value):
            changed = _copy(model)
            kind = changed.graph.input[at].type.tensor_type
            kind.ClearField("shape")
            if shape is not None:
                kind.shape.CopyFrom(shape)
            for out in changed.graph.output:  # what it was is no longer sure
                out.type.tensor_type.ClearField("shape")
            yield f"{value.name} declared {words}", changed


def _copy(model: ModelProto) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(model)
    return copy


Change = Callable[[NodeProto], Any]


def _changes_of_node(node: NodeProto) -> Iterator[tuple[str, Change]]:
    for at, attribute in enumerate(node.attribute):
        yield f"without {attribute.name}", functools.partial(_take, "attribute", at)
        for words, changed in _attributes(attribute):
            yield f"{attribute.name} = {words}", functools.partial(_put, at, changed)
    for at, name in enumerate(node.input):
        if name:
            yield f"without input {at}", functools.partial(_leave_out, "input", at)
    if node.input:
        yield "without its last input", functools.partial(_take, "input", -1)
    if len(node.output) > 1:
        yield "without its first output", functools.partial(_leave_out, "output", 0)


def _take(field: str, at: int, node: NodeProto) -> None:
    getattr(node, field).pop(at)


def _put(at: int, changed: AttributeProto, node: NodeProto) -> None:
    node.attribute[at].CopyFrom(changed)


def _leave_out(field: str, at: int, node: NodeProto) -> None:
    getattr(node, field)[at] = ""


def _attributes(attribute: AttributeProto) -> Iterator[tuple[str, AttributeProto]]:
    """Other values of the same kind."""
    changed = AttributeProto()
    changed.CopyFrom(attribute)
    if attribute.type in NUMBERS:
        field, values = NUMBERS[attribute.type]
        for value in values:
            setattr(changed, field, value)
            yield str(value), changed
        if attribute.type == AttributeProto.STRING:
            changed.s = attribute.s + b"1"
            yield str(changed.s), changed
    elif attribute.type in LISTS:
        field, values = LISTS[attribute.type]
        for listed in _lists(list(getattr(attribute, field)), values):
            del getattr(changed, field)[:]
            getattr(changed, field).extend(listed)
            yield str(listed)[:60], changed
    elif attribute.type == AttributeProto.TENSOR:
        for words, tensor in _tensors(attribute.t):
            changed.t.CopyFrom(tensor)
            yield words, changed


def _shapes(value: ValueInfoProto) -> Iterator[tuple[str, TensorShapeProto | None]]:
    """Other shapes of an input: unknown, one axis more or less, another size."""
    if not value.type.HasField("tensor_type") or not value.type.tensor_type.HasField("shape"):
        return
    old = list(value.type.tensor_type.shape.dim)
    free, single = TensorShapeProto.Dimension(), TensorShapeProto.Dimension(dim_value=1)
    shapes = [[], old[:-1], old[1:], [free, *old], [*old, single], [free] * len(old), old[::-1]]
    for at, dim in enumerate(old):
        for size in (0, 1, dim.dim_value + 1):
            sized = TensorShapeProto.Dimension(dim_value=size)
            shapes.append([*old[:at], sized, *old[at + 1 :]])
    yield "without a shape", None
    for dims in shapes:
        if dims != old:
            words = ",".join(str(d.dim_value) if d.HasField("dim_value") else "?" for d in dims)
            yield f"[{words}]", TensorShapeProto(dim=dims)


def _lists(old: list[Any], values: Sequence[Any]) -> Iterator[list[Any]]:
    yield from (old[:-1], old + old[-1:], [], old[::-1], old[:1] * len(old))
    for value in values:
        yield from ([value, *old[1:]], [*old[:-1], value])


def _tensors(tensor: TensorProto) -> Iterator[tuple[str, TensorProto]]:
    """Tensors of other shapes, of another type, and with another first number."""
    try:
        array = numpy_helper.to_array(tensor)
    except (ValueError, TypeError):  # external, or of a type without numbers
        return
    flat = array.reshape(-1)
    for shape in (flat[:-1], np.concatenate([flat, flat[-1:]]), array[np.newaxis], flat[:0]):
        yield f"of shape {shape.shape}", numpy_helper.from_array(shape, tensor.name)
    if array.dtype.kind not in "if" or not array.size:
        return
    dtype = np.float64 if array.dtype != np.float64 else np.float32
    yield f"as {dtype.__name__}", numpy_helper.from_array(array.astype(dtype), tensor.name)
    for first in (-1, 0, 3, 100 if array.dtype.itemsize < 8 else HUGE):
        changed = flat.copy()
        changed[0] = first
        words, array_again = f"beginning with {first}", changed.reshape(array.shape)
        yield words, numpy_helper.from_array(array_again, tensor.name)
