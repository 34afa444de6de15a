# SPDX-License-Identifier: Apache-2.0
"""Makes AttributeProtos from Python values, with the types that the schema requires."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from opshift.model.arrays import from_array, is_array
from opshift.opsets import schemas
from opshift.protos import AttributeProto, helper

CONSTANT_FORMS = {
    "value_int": "int64",
    "value_ints": "int64",
    "value_float": "float32",
    "value_floats": "float32",
    "value_string": "object",
    "value_strings": "object",
}
"""The attributes of Constant that hold numbers or strings, with the numpy type of each."""


def make_attributes(schema: schemas.Schema, values: Mapping[str, Any]) -> list[AttributeProto]:
    return [
        make_attribute(schema, name, value) for name, value in values.items() if value is not None
    ]


def make_attribute(schema: schemas.Schema, name: str, value: Any) -> AttributeProto:
    """Makes an attribute with the type from its schema, or else from the Python value."""
    if isinstance(value, AttributeProto):
        copy = AttributeProto()
        copy.CopyFrom(value)
        copy.name = name
        return copy
    if not schema.stated:
        from opshift.protos import whole

        return whole.helper.make_attribute(name, from_array(value) if is_array(value) else value)
    kind = schema.attributes[name].kind
    if is_array(value) and kind != AttributeProto.TENSOR:
        value = value.tolist()
    if kind == AttributeProto.TENSOR and is_array(value):
        value = from_array(value)
    if kind == AttributeProto.FLOAT:
        value = float(value)
    elif kind == AttributeProto.FLOATS:
        value = [float(v) for v in value]
    made = AttributeProto(name=name)
    made.type = kind  # type: ignore[assignment]
    _SETTERS[kind](made, value)
    return made


_SETTERS: dict[int, Callable[[AttributeProto, Any], Any]] = {
    AttributeProto.FLOAT: lambda a, v: setattr(a, "f", v),
    AttributeProto.INT: lambda a, v: setattr(a, "i", int(v)),
    AttributeProto.STRING: lambda a, v: setattr(a, "s", v.encode() if isinstance(v, str) else v),
    AttributeProto.TENSOR: lambda a, v: a.t.CopyFrom(v),
    AttributeProto.GRAPH: lambda a, v: a.g.CopyFrom(v),
    AttributeProto.SPARSE_TENSOR: lambda a, v: a.sparse_tensor.CopyFrom(v),
    AttributeProto.TYPE_PROTO: lambda a, v: a.tp.CopyFrom(v),
    AttributeProto.FLOATS: lambda a, v: a.floats.extend(v),
    AttributeProto.INTS: lambda a, v: a.ints.extend(int(x) for x in v),
    AttributeProto.STRINGS: lambda a, v: a.strings.extend(
        x.encode() if isinstance(x, str) else x for x in v
    ),
    AttributeProto.TENSORS: lambda a, v: a.tensors.extend(v),
    AttributeProto.GRAPHS: lambda a, v: a.graphs.extend(v),
}


def is_default(schema: schemas.Schema | None, proto: AttributeProto) -> bool:
    """Returns whether an attribute has its default value, so that it can be omitted."""
    declared = schema.attributes.get(proto.name) if schema else None
    if declared is None or proto.ref_attr_name:
        return False
    value = helper.get_attribute_value(proto)
    return (value.decode() if isinstance(value, bytes) else value) == declared.default
