# SPDX-License-Identifier: Apache-2.0
"""Finds values that depend on random numbers, for which only type and shape are compared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from opshift.model.arrays import to_array
from opshift.model.functions import functions_of
from opshift.model.imports import Versions, versions
from opshift.model.scope import FunctionId, call_id
from opshift.model.walk import graphs_of, reads
from opshift.protos import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto
from opshift.protos.whole import helper
from opshift.verify.oracle.values import type_of

DRAWING = frozenset(
    (
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
        "Multinomial",
        "Bernoulli",
    )
)


def drawn(model: ModelProto) -> set[str]:
    """Returns the values of the main graph that depend on random numbers."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    fed = {info.name for info in model.graph.input}
    constants = {name: tensor for name, tensor in constants.items() if name not in fed}
    return _after(model.graph.node, versions(model), functions_of(model), constants)


def _after(
    nodes: Iterable[NodeProto],
    imports: Versions,
    functions: dict[FunctionId, FunctionProto],
    constants: dict[str, TensorProto],
) -> set[str]:
    drawn_names: set[str] = set()
    for node in nodes:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].HasField("t"):
            constants[node.output[0]] = node.attribute[0].t
        function = functions.get(call_id(node))
        if function is not None:
            draws = bool(_after(function.node, versions(function), functions, {}))
        else:
            draws = _draws(node, imports, constants)
        inner = any(_inside(graph, imports, functions) for _, graph in graphs_of(node))
        if draws or inner or not drawn_names.isdisjoint(reads(node)):
            drawn_names.update(name for name in node.output if name)
    return drawn_names


def _inside(
    graph: GraphProto, imports: Versions, functions: dict[FunctionId, FunctionProto]
) -> bool:
    return bool(_after(graph.node, imports, functions, {}))


def _draws(node: NodeProto, imports: Versions, constants: dict[str, TensorProto]) -> bool:
    if node.domain not in ("", "ai.onnx"):
        return False
    return node.op_type in DRAWING or (
        node.op_type == "Dropout" and _trains(node, imports.get("", 1), constants)
    )


def _trains(node: NodeProto, version: int, constants: dict[str, TensorProto]) -> bool:
    """Returns whether a Dropout runs in training mode, in which it may drop elements."""
    if version < 7:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        return not attributes.get("is_test", 0)
    if len(node.input) < 3 or not node.input[2]:
        return False
    training_mode = constants.get(node.input[2])
    return training_mode is None or bool(to_array(training_mode).any())


def unlike(expected: Any, actual: Any) -> str:
    """Describes a difference between two types or shapes; empty if they are equal."""
    types = [type_of(value) for value in (expected, actual)]
    if types[0] != types[1]:
        return f"{types[0]} expected, {types[1]} given"
    if isinstance(expected, list):
        if len(expected) != len(actual):
            return f"length {len(expected)} expected, {len(actual)} given"
        return next(filter(None, map(unlike, expected, actual)), "")
    shapes = [list(getattr(value, "shape", ())) for value in (expected, actual)]
    return "" if shapes[0] == shapes[1] else f"shape {shapes[0]} expected, {shapes[1]} given"
