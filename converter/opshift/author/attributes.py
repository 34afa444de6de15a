# SPDX-License-Identifier: Apache-2.0
"""Makes AttributeProtos from Python values, with the types that the schema requires."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from opshift.model.arrays import from_array, is_array
from opshift.opsets import schemas
from opshift.protos import AttributeProto, helper
from opshift.protos.copies import copy_of

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
        copy = copy_of(value)
        copy.name = name
        return copy
    if not schema.stated:
        from opshift.protos import whole

        return whole.helper.make_attribute(name, from_array(value) if is_array(value) else value)
    kind = schema.attributes[name].kind
    if is_array(value):
        value = from_array(value) if kind == AttributeProto.TENSOR else value.tolist()
    element = _ELEMENTS.get(kind, lambda message: message)
    if (field := helper.LISTS.get(kind)) is not None:
        value = [element(item) for item in value]
    else:
        field, value = helper.FIELDS[kind], element(value)
    return AttributeProto(name=name, type=kind, **{field: value})  # type: ignore[arg-type]


def _encoded(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


_ELEMENTS: dict[int, Callable[[Any], Any]] = {
    AttributeProto.FLOAT: float,
    AttributeProto.FLOATS: float,
    AttributeProto.INT: int,
    AttributeProto.INTS: int,
    AttributeProto.STRING: _encoded,
    AttributeProto.STRINGS: _encoded,
}
"""The functions that convert Python values to the numbers and texts of an attribute."""


def is_default(schema: schemas.Schema | None, proto: AttributeProto) -> bool:
    """Returns whether an attribute has its default value, so that it can be omitted."""
    declared = schema.attributes.get(proto.name) if schema else None
    if declared is None or proto.ref_attr_name:
        return False
    value = helper.get_attribute_value(proto)
    return (value.decode() if isinstance(value, bytes) else value) == declared.default
