# SPDX-License-Identifier: Apache-2.0
"""Collects the element types that can occur in a model; other types need no check."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from opshift.author.attributes import CONSTANT_FORMS
from opshift.opsets import described, schemas
from opshift.protos import AttributeProto, GraphProto, NodeProto, TypeProto

if TYPE_CHECKING:
    from opshift.model.document import Document

# Names of integer attributes that hold an element type, in all operators.
TYPE_ATTRIBUTES = frozenset(
    [
        "to",
        "dtype",
        "output_dtype",
        "precision",
        "stash_type",
        "softmax_precision",
        "output_datatype",
    ]
)
# The types that an omitted type attribute has meant in any version.
IMPLIED_TYPES = frozenset({"float", "int32", "int64", "uint8", "bool"})
_NAMES = {"float32": "float", "object": "string"}  # the numpy types in `CONSTANT_FORMS`


@functools.cache
def tokens(type_text: str) -> frozenset[str]:
    """Returns the names in a type, such as seq and float for the type `seq(tensor(float))`."""
    return frozenset(re.findall(r"\w+", type_text)) - {"tensor"}


def element_types(proto: TypeProto) -> frozenset[str]:
    """Returns the element types inside a type, and the containers around them."""
    text = schemas.type_name(proto)
    return tokens(text) if text else frozenset()


def collect_present_types(document: Document) -> set[str]:
    names: set[str] = set()
    for root in document.roots:
        for scope in root.scopes:
            proto = scope.proto
            infos, kinds = list(getattr(proto, "value_info", ())), set[int]()
            if isinstance(proto, GraphProto):
                infos += [*proto.input, *proto.output]
                sparse = [sparse_tensor.values for sparse_tensor in proto.sparse_initializer]
                kinds = {tensor.data_type for tensor in (*proto.initializer, *sparse)}
            for kind in (info.type for info in infos):
                if kind.HasField("tensor_type"):
                    kinds.add(kind.tensor_type.elem_type)
                else:
                    names |= element_types(kind)
            names |= {schemas.element_name(kind) or "" for kind in kinds}
        for key, places in root.index.items():
            version = root.imports.get(key[0])
            schema = schemas.schema(*key, version) if version else None
            if schema is None:
                continue
            names |= fixed_types(*key, schema.since)
            if _may_bring_types(*key, schema.since):
                for scope, position in places:
                    names |= attribute_types(scope.node(position), schema)
    names.discard("")
    return names


def types_from(node: NodeProto, schema: schemas.Schema) -> set[str]:
    """Returns the element types that one node can add to a model."""
    key = (schema.domain, schema.name, schema.since)
    names = set(fixed_types(*key))
    if _may_bring_types(*key):
        names |= attribute_types(node, schema)
    names.discard("")
    return names


@described.remembered
def _may_bring_types(domain: str, op: str, since: int) -> bool:
    schema = schemas.schema(domain, op, since)
    return schema is not None and any(_brings_types(a) for a in schema.attributes.values())


def _brings_types(attribute: schemas.Attribute) -> bool:
    return attribute.name in TYPE_ATTRIBUTES or attribute.kind in (
        AttributeProto.TENSOR,
        AttributeProto.SPARSE_TENSOR,
        AttributeProto.TYPE_PROTO,
    )


@described.remembered
def fixed_types(domain: str, op: str, since: int) -> frozenset[str]:
    """Returns the types of outputs that depend on no input, because only one type is possible."""
    names: set[str] = set()
    schema = schemas.schema(domain, op, since)
    assert schema is not None
    bound = {p.variable for p in schema.inputs}
    for param in schema.outputs:
        if param.variable in bound:
            continue
        kinds = [tokens(text) for text in param.types]
        always = frozenset.intersection(*kinds)
        names |= always
        if not _may_bring_types(domain, op, since):
            names |= frozenset.union(*kinds) & IMPLIED_TYPES
    return frozenset(names)


def attribute_types(node: NodeProto, schema: schemas.Schema) -> set[str]:
    """Returns the element types that the attributes of one node add."""
    names: set[str] = set()
    present = set()
    for attribute in node.attribute:
        present.add(attribute.name)
        if attribute.name in TYPE_ATTRIBUTES:
            name = attribute.s.decode().lower() if attribute.s else attribute.i
            names.add(name if isinstance(name, str) else schemas.element_name(name) or "")
        if attribute.HasField("t"):
            names.add(schemas.element_name(attribute.t.data_type) or "")
        elif attribute.HasField("sparse_tensor"):
            names.add(schemas.element_name(attribute.sparse_tensor.values.data_type) or "")
        elif attribute.HasField("tp"):
            names |= element_types(attribute.tp)
        elif (kind := CONSTANT_FORMS.get(attribute.name)) is not None:
            names.add(_NAMES.get(kind, kind))
    is_stated = (schema.domain, schema.name) == ("", "Constant") and names
    if not present & TYPE_ATTRIBUTES and not is_stated:
        names |= IMPLIED_TYPES
    return names
