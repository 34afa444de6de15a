# SPDX-License-Identifier: Apache-2.0
"""Moves the nodes of a model into subgraphs, functions or training graphs."""

from __future__ import annotations

from random import Random

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper

from tools.conformance import node_tests

DEEP = (2, 5, 29, 31, 60)


def into_if(rng: Random, model: ModelProto, donor: ModelProto) -> None:
    """Moves the whole graph into both branches of an If."""
    model.CopyFrom(node_tests.nested(model))


def into_loop(rng: Random, model: ModelProto, donor: ModelProto) -> None:
    """Moves the whole graph into the body of a Loop that runs once."""
    body = GraphProto(name="body", node=model.graph.node)
    body.input.append(helper.make_tensor_value_info("i", TensorProto.INT64, []))
    body.input.append(helper.make_tensor_value_info("on", TensorProto.BOOL, []))
    body.output.append(helper.make_tensor_value_info("on", TensorProto.BOOL, []))
    body.output.extend(model.graph.output)
    del model.graph.node[:]
    model.graph.initializer.append(helper.make_tensor("trips", TensorProto.INT64, [], [1]))
    outputs = [value.name for value in model.graph.output]
    model.graph.node.append(helper.make_node("Loop", ["trips", ""], outputs, body=body))


def into_function(rng: Random, model: ModelProto, donor: ModelProto) -> None:
    """Moves the graph into a function, whose name may be the name of an operator."""
    model.CopyFrom(node_tests.function(model))
    body, call, imported = model.functions[-1], model.graph.node[0], model.opset_import[-1]
    domain, name = rng.choice((("acme", "F"), ("", "Relu"), ("acme", ""), ("ai.onnx", "F")))
    body.domain = call.domain = imported.domain = domain
    body.name = call.op_type = name
    if rng.random() < 0.3:
        body.overload = rng.choice(("", "v2"))
    if rng.random() < 0.1 or not domain:
        del model.opset_import[-1]


def recursion(rng: Random, model: ModelProto, donor: ModelProto) -> None:
    """Makes one function call another, or itself."""
    if not model.functions:
        into_function(rng, model, donor)
    caller, callee = rng.choice(model.functions), rng.choice(model.functions)
    call = NodeProto(op_type=callee.name, domain=callee.domain)
    call.input.extend(callee.input)
    call.output.extend(f"again_{name}" for name in callee.output)
    caller.node.append(call)
    if not any(entry.domain == callee.domain for entry in caller.opset_import):
        caller.opset_import.add(domain=callee.domain, version=1)


def deep(rng: Random, model: ModelProto, donor: ModelProto) -> None:
    """Moves the graph into nested Ifs, whose other branches have the same graph."""
    flat = GraphProto(name="flat", node=model.graph.node, output=model.graph.output)
    outputs = [value.name for value in model.graph.output]
    for _ in range(rng.choice(DEEP)):
        branch = GraphProto(name="branch", node=model.graph.node, output=model.graph.output)
        node = helper.make_node("If", ["condition"], outputs)
        node.attribute.add(name="then_branch", type=AttributeProto.GRAPH).g.CopyFrom(branch)
        node.attribute.add(name="else_branch", type=AttributeProto.GRAPH).g.CopyFrom(flat)
        del model.graph.node[:]
        model.graph.node.append(node)
    model.graph.input.append(helper.make_tensor_value_info("condition", TensorProto.BOOL, []))


def into_training(rng: Random, model: ModelProto, donor: ModelProto) -> None:
    """Adds training information with a graph of the model, or of the other model `donor`."""
    training = model.training_info.add()
    graph = rng.choice((model, donor)).graph
    rng.choice((training.initialization, training.algorithm)).CopyFrom(graph)
    training.update_binding.add(key=rng.choice(("x", "w", "")), value="y")


def many(rng: Random, model: ModelProto, donor: ModelProto) -> None:
    """Repeats the nodes with new names, so that fast-growing costs become visible."""
    if 0 < len(model.graph.node) <= 20:
        first = list(model.graph.node)
        for turn in range(rng.choice((5, 25))):
            for node in first:
                copy = NodeProto()
                copy.CopyFrom(node)
                copy.output[:] = [f"{name}_{turn}" for name in node.output]
                model.graph.node.append(copy)


MUTATIONS = (into_if, into_loop, into_function, recursion, recursion, deep, into_training, many)
