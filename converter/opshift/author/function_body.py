# SPDX-License-Identifier: Apache-2.0
"""Writes an operator as the function body that onnx defines for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opshift.author.node import Node, Value
from opshift.author.verdicts import Keep
from opshift.codes.refusals import Why
from opshift.errors import AdapterBug, Refusal
from opshift.model.functions import bind_attributes
from opshift.model.rename import rename
from opshift.opsets import schemas
from opshift.protos import AttributeProto, FunctionProto, NodeProto

if TYPE_CHECKING:
    from opshift.author.builder import Builder


def expand(node: Node, op: Builder) -> tuple[Value, ...]:
    """Writes the nodes of the body, each converted to the entered version; returns its outputs."""
    body = _body(node, op)
    attributes = _bindings(node, body)
    names = {
        formal: node.proto.input[i] if i < len(node.proto.input) else ""
        for i, formal in enumerate(body.input)
    }
    for proto in body.node:
        copy = _instance(proto, attributes, names, op)
        domain = schemas.normal(copy.domain)
        written = _crossed(copy, domain, _left(op, body, domain), op)
        for name, value in zip(proto.output, written, strict=False):
            names[name] = value.name
    return tuple(Value(names[formal], op.env) for formal in body.output[: node.n_outputs])


def _crossed(node: NodeProto, domain: str, left: int, op: Builder) -> tuple[Value, ...]:
    """A node of the body at the version that `op` enters."""
    schema, entered = schemas.schema(domain, node.op_type, left), op.opset(domain)
    if schema is not None and left < entered:
        answer = op.crossing.cross(Node(node, schema, op.env), left, entered, op)
        if not isinstance(answer, Keep):
            return answer if isinstance(answer, tuple) else (answer,)
        schema = schemas.schema(domain, node.op_type, entered)
    if schema is not None:
        return op.place(node, schema)
    op.made.add(node)  # of a domain that no schema describes
    return tuple(Value(name, op.env) for name in node.output)


def _body(node: Node, op: Builder) -> FunctionProto:
    assert node.schema is not None
    domain, since = node.schema.domain, node.schema.since
    version = op.scope.root.imports[domain]
    found = schemas.body(domain, node.op, since, version)
    if found is None:
        types = [value.type if value else None for value in node.inputs]
        if any(t is None for v, t in zip(node.inputs, types, strict=True) if v):
            raise Refusal(
                Why.NEEDS_TYPE,
                f"the function body of {node.op} depends on the types of its inputs, and one is"
                " unknown",
            )
        raw = [t.SerializeToString() if t else b"" for t in types]
        bare = node.proto.SerializeToString()
        found = schemas.body_for_node(domain, node.op, since, version, bare, raw)
    if found is None:
        if not node.schema.has_body:
            raise AdapterBug(
                f"onnx defines no function body of {node.op}-{since}, so op.expand cannot write it"
            )
        raise Refusal(
            Why.NOT_EXPRESSIBLE, f"onnx has no function body of {node.op} for these inputs"
        )
    return found


def _left(op: Builder, body: FunctionProto, domain: str) -> int:
    """The version at which the nodes of a body are read: the one being left."""
    written = {schemas.normal(i.domain): i.version for i in body.opset_import}.get(domain)
    return op.scope.root.imports.get(domain) or written or 1


def _bindings(node: Node, body: FunctionProto) -> dict[str, AttributeProto]:
    """The value that each attribute of the function has at this node."""
    bound = {default.name: default for default in body.attribute_proto}
    if node.schema is not None and node.schema.stated:
        raw = schemas.raw(node.schema.domain, node.op, node.schema.since)
        for name, attribute in raw.attributes.items():
            # `default_value` is an addition of the package onnx, which may not be imported.
            default = AttributeProto.FromString(attribute._default_value)
            if default.name:
                bound.setdefault(name, default)
    for proto in node.attribute_protos():
        if proto.ref_attr_name:
            raise Refusal(
                Why.NEEDS_STATIC_ATTR,
                f"attribute {proto.name!r} has the value of the attribute {proto.ref_attr_name!r}"
                " of the function around the node",
            )
        bound[proto.name] = proto
    return bound


def _instance(
    proto: NodeProto, bound: dict[str, AttributeProto], names: dict[str, str], op: Builder
) -> NodeProto:
    """A copy of a node of the body with the attributes and names of this call."""
    copy = NodeProto()
    copy.CopyFrom(proto)
    bind_attributes(copy, bound)
    inner = {name: op.crossing.fresh(proto.op_type) for name in proto.output if name}
    names.update(inner)
    rename(copy, names)
    return copy
