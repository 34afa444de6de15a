# SPDX-License-Identifier: Apache-2.0
"""Reads the function body that onnx defines for an operator, and copies its nodes for a call."""

from __future__ import annotations

from collections.abc import Callable

from opshift.author.node import Node, refuse_reference
from opshift.codes.refusals import Why
from opshift.errors import AdapterBug, Refusal
from opshift.model.functions import bind_attributes, freshen
from opshift.model.imports import versions
from opshift.model.scope import Imports
from opshift.opsets import schemas
from opshift.protos import AttributeProto, FunctionProto, GraphProto, NodeProto
from opshift.protos.copies import copy_of

GRAPH = "opshift.graph"  # the domain of a placeholder node for a subgraph of the call


def body_of(node: Node, imports: Imports) -> FunctionProto:
    """Returns the function body that onnx defines for a node; refuses the node without a body."""
    assert node.schema is not None
    domain, since = node.schema.domain, node.schema.since
    version = max(since, imports[domain])  # adapters may write later nodes
    body = schemas.body(domain, node.op, since, version)
    if body is None:
        types = [value.type if value else None for value in node.inputs]
        if any(t is None for v, t in zip(node.inputs, types, strict=True) if v):
            raise Refusal(
                Why.NEEDS_TYPE,
                f"the function body of {node.op} depends on the types of its inputs, and the type"
                " of an input is unknown",
            )
        raw = [t.SerializeToString() if t else b"" for t in types]
        bare = _with_placeholders(node.proto).SerializeToString()
        body = schemas.body_for_node(domain, node.op, since, version, bare, raw)
    if body is None:
        if not node.schema.has_body:
            raise AdapterBug(
                f"onnx defines no function body of {node.op}-{since}, so op.expand cannot write it"
            )
        raise Refusal(
            Why.NOT_EXPRESSIBLE, f"onnx has no function body of {node.op} for these inputs"
        )
    return body


def _with_placeholders(proto: NodeProto) -> NodeProto:
    """Copies a node with a placeholder node as the only content of each subgraph."""
    copy = copy_of(proto)
    for attribute in copy.attribute:
        if not attribute.HasField("g"):
            continue
        graph = GraphProto(name=attribute.g.name)
        graph.input.extend(attribute.g.input)
        graph.output.extend(attribute.g.output)
        for kind in ("input", "output"):
            for i, value in enumerate(getattr(graph, kind)):
                value.name = f"{kind}{i}"
        arguments, results = ([info.name for info in part] for part in (graph.input, graph.output))
        graph.node.add(domain=GRAPH, op_type=attribute.name, input=arguments, output=results)
        attribute.g.CopyFrom(graph)
    return copy


def version_of(body: FunctionProto, domain: str, imports: Imports) -> int:
    """Returns the opset for the nodes of a function body: the model's opset, or a later one."""
    written = versions(body).get(domain, 1)
    return max(imports.get(domain) or 0, written)


def bindings(node: Node, body: FunctionProto) -> dict[str, AttributeProto]:
    """Returns the value of each attribute of the function for this node."""
    bound = {default.name: default for default in body.attribute_proto}
    if node.schema is not None and node.schema.stated:
        raw = schemas.raw(node.schema.domain, node.op, node.schema.since)
        for name, attribute in raw.attributes.items():
            # `default_value` is added by the package onnx, which may not be imported.
            default = AttributeProto.FromString(attribute._default_value)
            if default.name:
                bound.setdefault(name, default)
    for proto in node.attribute_protos():
        refuse_reference(proto)
        bound[proto.name] = proto
    return bound


def instance(
    proto: NodeProto,
    bound: dict[str, AttributeProto],
    names: dict[str, str],
    fresh: Callable[[str], str],
) -> NodeProto:
    """Copies a node of the body with the attributes, value names and graph names of this call."""
    copy = copy_of(proto)
    bind_attributes(copy, bound)
    inner = {name: fresh(proto.op_type) for name in proto.output if name}
    names.update(inner)
    freshen(copy, names, fresh)
    return copy
