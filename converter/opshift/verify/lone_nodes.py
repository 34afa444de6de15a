# SPDX-License-Identifier: Apache-2.0
"""Finds the operators of a model that fail in a runtime as models of a single node."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import numpy as np

from opshift.author import safe_inference
from opshift.author.registry import Registry
from opshift.child_task import Limits
from opshift.model import walk, weights
from opshift.model.weights import Weights
from opshift.opsets.identity import normal
from opshift.protos import ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto
from opshift.records import dataclass
from opshift.verify import oracle
from opshift.verify.other_runtime import RAN, OtherRuntime

MOST = 200  # the largest number of single-node models
LARGEST = 4 << 20  # the largest number of constant elements of a single-node model


@dataclass(frozen=True, slots=True)
class LoneNode:
    """A model of one node, its inputs, and the values that our evaluator computes."""

    op: str
    model: ModelProto
    inputs: Mapping[str, Any]
    expected: list[Any]


def failing(
    model: ModelProto, large_tensors: Weights, runtime: OtherRuntime, limits: Limits,
    adapters: Registry,
) -> frozenset[str]:  # fmt: skip
    """Returns the operators of ai.onnx with a node that fails or is wrong on its own."""
    nodes = list(_lone(model, large_tensors, adapters))
    answers = runtime.run_models([(node.model, node.inputs) for node in nodes], limits)
    return frozenset(
        node.op
        for node, answer in zip(nodes, answers, strict=True)
        if answer.outcome != RAN or _differs(node, answer.results[0][0])
    )


def _differs(node: LoneNode, outputs: Mapping[str, Any]) -> bool:
    actual = [outputs.get(info.name) for info in node.model.graph.output]
    if any(value is None for value in actual):
        return True
    return bool(oracle.compare(node.expected, actual, rtol=1e-2, atol=1e-3))


def _lone(model: ModelProto, large_tensors: Weights, adapters: Registry) -> Iterator[LoneNode]:
    """Yields a model for each different node of the main graph whose types are known."""
    try:
        typed = safe_inference.infer(model, adapters, data_prop=True)
    except safe_inference.COMPLAINTS:
        return
    graph, kinds = typed.graph, set[Hashable]()
    types = {info.name: info.type for info in (*graph.input, *graph.value_info, *graph.output)}
    graph = model.graph  # inference drops the marks of tensors that are not in memory
    constants = {tensor.name: tensor for tensor in graph.initializer}
    constants |= _constant_nodes(graph.node)
    for node in graph.node:
        if normal(node.domain) or node.op_type == "Constant" or walk.holds_graphs(node):
            continue
        kind = _kind(node, types, constants)
        if kind in kinds or len(kinds) >= MOST:
            continue
        kinds.add(kind)
        if (small := _alone(typed, node, types, constants)) is None:
            continue
        weights.fill(small, large_tensors)
        weights.fetch(small, large_tensors)
        try:
            with np.errstate(all="ignore"):
                inputs = oracle.make_inputs(small)
                yield LoneNode(node.op_type, small, inputs, oracle.evaluate(small, inputs))
        except oracle.OracleError:  # generated inputs may be invalid for the operator
            continue


def _constant_nodes(nodes: Any) -> dict[str, TensorProto]:
    """Returns the tensors of Constant nodes, by the names of their outputs."""
    tensors = {}
    for node in nodes:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].HasField("t"):
            tensor = TensorProto()
            tensor.CopyFrom(node.attribute[0].t)
            tensor.name = node.output[0]
            tensors[tensor.name] = tensor
    return tensors


def _kind(
    node: NodeProto, types: Mapping[str, TypeProto], constants: Mapping[str, TensorProto]
) -> Hashable:
    """Returns a key that is equal for equal nodes: by operator, attributes and types of inputs."""
    attributes = sorted(
        attribute.SerializeToString(deterministic=True) for attribute in node.attribute
    )
    inputs = [
        (constants[name].data_type, *constants[name].dims)
        if name in constants
        else types[name].SerializeToString(deterministic=True)
        if name in types
        else name
        for name in node.input
    ]
    return node.op_type, tuple(attributes), tuple(inputs), len(node.output)


def _alone(
    model: ModelProto, node: NodeProto, types: Mapping[str, TypeProto],
    constants: Mapping[str, TensorProto],
) -> ModelProto | None:  # fmt: skip
    """Returns a model of one node; None if a type is unknown or a constant is large."""
    small = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    small.graph.name = "lone"
    small.graph.node.append(node)
    for name in dict.fromkeys(filter(None, node.input)):
        if name in constants:
            small.graph.initializer.append(constants[name])
        elif name in types:
            small.graph.input.append(ValueInfoProto(name=name, type=types[name]))
        else:
            return None
    for name in filter(None, node.output):
        if name not in types:
            return None
        small.graph.output.append(ValueInfoProto(name=name, type=types[name]))
    elements = sum(math.prod(tensor.dims) for tensor in small.graph.initializer)
    return small if elements <= LARGEST else None
