# SPDX-License-Identifier: Apache-2.0
"""Reimplements small functions of `onnx.helper` without numpy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from opshift.protos import AttributeProto, TypeProto

FIELDS: dict[int, str] = {
    AttributeProto.FLOAT: "f",
    AttributeProto.INT: "i",
    AttributeProto.STRING: "s",
    AttributeProto.TENSOR: "t",
    AttributeProto.GRAPH: "g",
    AttributeProto.SPARSE_TENSOR: "sparse_tensor",
    AttributeProto.TYPE_PROTO: "tp",
}
"""The field with the value of an attribute, by the type of the attribute."""
LISTS: dict[int, str] = {
    AttributeProto.FLOATS: "floats",
    AttributeProto.INTS: "ints",
    AttributeProto.STRINGS: "strings",
    AttributeProto.TENSORS: "tensors",
    AttributeProto.GRAPHS: "graphs",
    AttributeProto.SPARSE_TENSORS: "sparse_tensors",
    AttributeProto.TYPE_PROTOS: "type_protos",
}
"""The field with the values of an attribute that is a list, by the type of the attribute."""


def get_attribute_value(attribute: AttributeProto) -> Any:
    """Returns the value of an attribute; None if its type is undefined."""
    if attribute.ref_attr_name:
        raise ValueError(f"attribute {attribute.name!r} refers to an attribute of its function")
    if (name := FIELDS.get(attribute.type)) is not None:
        return getattr(attribute, name)
    if (name := LISTS.get(attribute.type)) is not None:
        return list(getattr(attribute, name))
    if attribute.type == AttributeProto.UNDEFINED:
        return None
    raise ValueError(f"attribute {attribute.name!r} has the unknown type {attribute.type}")


def make_tensor_type_proto(elem_type: int, shape: Iterable[int | str | None] | None) -> TypeProto:
    """Returns a tensor type; sizes may be a number, a symbol or None; no shape means no rank."""
    proto = TypeProto()
    proto.tensor_type.elem_type = elem_type
    if shape is not None:
        add_dims(proto, shape)
    return proto


def add_dims(proto: TypeProto, shape: Iterable[int | str | None]) -> None:
    """Gives a tensor type without a shape these sizes: each a number, a symbol or None."""
    proto.tensor_type.shape.SetInParent()
    for length in shape:
        dim = proto.tensor_type.shape.dim.add()
        if isinstance(length, str):
            dim.dim_param = length
        elif length is not None:
            dim.dim_value = length
