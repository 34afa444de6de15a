# SPDX-License-Identifier: Apache-2.0
"""The scopes around a random operator: branches, the body of a loop, a function."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, ValueInfoProto, helper
from opshift.model import arrays
from opshift.opsets import schemas

from families.making import Making


@dataclass
class Parts:
    """The parts of a graph: inputs, initializers and the nodes before the operator."""

    opset: int
    old_ir: bool
    inputs: list[ValueInfoProto] = field(default_factory=list)
    initializers: list[Any] = field(default_factory=list)
    before: list[list[NodeProto]] = field(default_factory=list)  # by the input they make
    feeds: dict[str, Any] = field(default_factory=dict)

    def own(self, name: str, value: Any) -> None:
        """Adds an initializer, which is also an input in the oldest models."""
        tensor = tensor_of(value, name)
        self.initializers.append(tensor)
        if self.old_ir:
            self.inputs.append(helper.make_tensor_value_info(name, tensor.data_type, tensor.dims))


def tensor_of(value: Any, name: str = "") -> Any:
    return arrays.from_array(value, name)


def into_branches(m: Making, model: ModelProto, parts: Parts) -> None:
    """Puts the operator into one branch of an If, and a renamed copy into the other branch."""
    graph = model.graph
    schema = schemas.schema("", "If", parts.opset)
    result = schema.output_at(0)
    kinds = [schemas.type_name(info.type) for info in graph.output]
    if not all(kind in result.types for kind in kinds):
        return
    inner = list(graph.node)
    outer: list[NodeProto] = []
    if m.flag():
        outs = {out for node in m.nodes for out in node.output}
        inner = [node for node in graph.node if outs & set(node.output)]
        outer = [node for node in graph.node if not outs & set(node.output)]
        if len(inner) + len(outer) != len(graph.node) or not inner:
            return
    branches = [_branch(graph, inner, suffix) for suffix in ("_then", "_else")]
    condition = "which"
    call = helper.make_node(
        "If", [condition], [info.name for info in graph.output],
        then_branch=branches[0], else_branch=branches[1],
    )  # fmt: skip
    del graph.node[:]
    graph.node.extend([*outer, call])
    if m.flag():
        graph.input.append(helper.make_tensor_value_info(condition, 9, []))
        parts.feeds[condition] = np.array(m.flag())
    else:
        graph.initializer.append(tensor_of(np.array(m.flag()), condition))


def into_loop(model: ModelProto, parts: Parts) -> None:
    """Puts the operator into a loop with two iterations, and stacks its results."""
    graph = model.graph
    schema = schemas.schema("", "Loop", parts.opset)
    stacked = schema.output_at(0)
    kinds = [schemas.type_name(info.type) or "" for info in graph.output]
    if parts.opset < 11 or not all(k in stacked.types and k.startswith("tensor") for k in kinds):
        return
    body = _branch(graph, list(graph.node), "_turn")
    body.input.append(helper.make_tensor_value_info("turn", 7, []))
    body.input.append(helper.make_tensor_value_info("go", 9, []))
    body.node.append(helper.make_node("Identity", ["go"], ["go_on"]))
    results = list(body.output)
    del body.output[:]
    body.output.extend([helper.make_tensor_value_info("go_on", 9, []), *results])
    graph.initializer.append(tensor_of(np.array(2), "times"))
    names = [info.name for info in graph.output]
    del graph.node[:]
    graph.node.append(helper.make_node("Loop", ["times", ""], names, body=body))
    for info in graph.output:
        dims = list(info.type.tensor_type.shape.dim)
        del info.type.tensor_type.shape.dim[:]
        info.type.tensor_type.shape.dim.add().dim_value = 2
        info.type.tensor_type.shape.dim.extend(dims)


def _branch(graph: GraphProto, nodes: list[NodeProto], suffix: str) -> GraphProto:
    names = {out: out + suffix for node in nodes for out in node.output if out}
    branch = GraphProto(name=f"branch{suffix}")
    for node in nodes:
        copy = branch.node.add()
        copy.CopyFrom(node)
        copy.input[:] = [names.get(name, name) for name in node.input]
        copy.output[:] = [names.get(name, name) for name in node.output]
        for attribute in copy.attribute:
            _rename(attribute, names, suffix)
    for info in graph.output:
        branch.output.add().CopyFrom(info)
        branch.output[-1].name = names.get(info.name, info.name)
    return branch


def _rename(attribute: AttributeProto, names: dict[str, str], suffix: str) -> None:
    """Renames the values of a body, because the bodies of two branches may not share names."""
    if attribute.type != AttributeProto.GRAPH:
        return
    body = attribute.g
    inner = dict(names)
    defined = [*body.input, *body.initializer]
    inner |= {one.name: one.name + suffix for one in defined}
    inner |= {out: out + suffix for node in body.node for out in node.output if out}
    for one in (*defined, *body.output):
        one.name = inner.get(one.name, one.name)
    for node in body.node:
        node.input[:] = [inner.get(name, name) for name in node.input]
        node.output[:] = [inner.get(name, name) for name in node.output]
        for held in node.attribute:
            _rename(held, inner, suffix)


def as_function(m: Making, parts: Parts, imports: dict[str, int]) -> tuple[list[NodeProto], Any]:
    """Puts the operator into a function; sometimes a call gives the value of an attribute."""
    inside, outside = [], []
    for group in parts.before:
        (inside if m.flag() else outside).extend(group)
    body = [NodeProto.FromString(n.SerializeToString()) for n in (*inside, *m.nodes)]
    outs = {out for node in body for out in node.output if out}
    needed = sorted({name for node in body for name in _reads(node) if name and name not in outs})
    call = helper.make_node("Made", needed, list(m.unused), domain="own")
    names = []
    plain = [a for a in body[-1].attribute if a.type in (1, 2, 3, 6, 7, 8) and not a.ref_attr_name]
    if plain and m.flag():
        chosen = plain[m.int(0, len(plain) - 1)]
        given = AttributeProto.FromString(chosen.SerializeToString())
        given.name = f"own_{chosen.name}"
        call.attribute.append(given)
        names.append(given.name)
        name, kind = chosen.name, chosen.type
        chosen.CopyFrom(AttributeProto(name=name, type=kind, ref_attr_name=given.name))
    entries = [helper.make_opsetid(d, v) for d, v in imports.items()]
    function = helper.make_function("own", "Made", needed, list(m.unused), body, entries, names)
    return [*outside, call], function


def _reads(node: NodeProto) -> set[str]:
    """Returns the outer values that a node and its bodies read."""
    found = set(node.input)
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            body = attribute.g
            inner = {one.name for one in (*body.input, *body.initializer)}
            inner |= {out for node in body.node for out in node.output}
            for one in body.node:
                found |= _reads(one) - inner
            found |= {value.name for value in body.output} - inner
    return found
