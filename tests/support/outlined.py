# SPDX-License-Identifier: Apache-2.0
"""Moves sequences of nodes into functions; equal sequences share one function."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from onnx import AttributeProto, FunctionProto, ModelProto, NodeProto, helper
from opshift.model.rename import rename_own
from opshift.model.walk import holds_graphs, reads

DOMAIN = "moved"
_KINDS = (AttributeProto.INT, AttributeProto.INTS, AttributeProto.FLOAT, AttributeProto.STRING)
_READ_EARLY = ("Cast", "Constant")  # whose attributes tell a type


def outlined(model: ModelProto, rng: Random, longest: int = 4) -> ModelProto:
    """Returns the model with random sequences of nodes as functions."""
    proto = ModelProto()
    proto.CopyFrom(model)
    functions: dict[bytes, FunctionProto] = {}
    nodes, calls, at = list(model.graph.node), list[NodeProto](), 0
    while at < len(nodes):
        run = nodes[at : at + rng.randint(1, longest)]
        at += len(run)
        later = {name for node in nodes[at:] for name in reads(node)}
        later.update(output.name for output in model.graph.output)
        if rng.random() < 0.3 or any(map(holds_graphs, run)):
            calls += run
        else:
            calls.append(_call(proto, run, later, functions, rng))
    del proto.graph.node[:]
    proto.graph.node.extend(calls)
    proto.functions.extend(functions.values())
    for owner in (proto, *proto.functions):
        if DOMAIN not in {opset.domain for opset in owner.opset_import}:
            owner.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    proto.ir_version = max(proto.ir_version, 10)
    return proto


def _call(
    model: ModelProto,
    run: Sequence[NodeProto],
    later: set[str],
    functions: dict[bytes, FunctionProto],
    rng: Random,
) -> NodeProto:
    """Returns a call of a function with some nodes."""
    written = [name for node in run for name in node.output if name]
    read = list(dict.fromkeys(n for node in run for n in reads(node) if n and n not in written))
    results = [name for name in written if name in later] or written[-1:]
    names = {name: f"X{i}" for i, name in enumerate(read)}
    names.update((name, f"V{i}") for i, name in enumerate(written))
    body = FunctionProto(domain=DOMAIN, opset_import=model.opset_import)
    body.input.extend(map(names.__getitem__, read))
    body.output.extend(map(names.__getitem__, results))
    attributes = list[AttributeProto]()
    for node in run:
        copy = body.node.add()
        copy.CopyFrom(node)
        copy.name = ""
        rename_own(copy, names)
        if copy.op_type not in _READ_EARLY:
            attributes += _taken_out(copy, len(attributes), rng)
    has_defaults = bool(attributes) and rng.random() < 0.3
    (body.attribute_proto if has_defaults else body.attribute).extend(
        attributes if has_defaults else [attribute.name for attribute in attributes]
    )
    if rng.random() < 0.1:
        body.metadata_props.add(key="a", value="b")
    function = functions.setdefault(body.SerializeToString(deterministic=True), body)
    function.name = function.name or f"Body{len(model.functions) + len(functions)}"
    call = helper.make_node(function.name, read, results, domain=DOMAIN, name=run[0].name)
    call.attribute.extend(attributes)
    return call


def _taken_out(node: NodeProto, first: int, rng: Random) -> list[AttributeProto]:
    """Removes attributes from a node of a function, for calls to give them instead."""
    attributes = list[AttributeProto]()
    for attribute in node.attribute:
        if attribute.type in _KINDS and not attribute.ref_attr_name and rng.random() < 0.2:
            given = AttributeProto()
            given.CopyFrom(attribute)
            given.name = f"a{first + len(attributes)}"
            attributes.append(given)
            name, kind = attribute.name, attribute.type
            attribute.Clear()
            attribute.name, attribute.type, attribute.ref_attr_name = name, kind, given.name
    return attributes
