# SPDX-License-Identifier: Apache-2.0
"""Provides the official node tests, their targets, and their graphs in other places of a model."""

from __future__ import annotations

import fnmatch
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import FunctionProto, ModelProto, helper, numpy_helper
from opshift.model.walk import reads
from opshift.opsets import schemas
from opshift.protos.copies import copied

BELOW = (18, 17, 15, 13, 12, 11, 10, 9, 8, 7, 6, 5, 1)


@dataclass(frozen=True, slots=True, eq=False)  # arrays cannot be hashed
class NodeTest:
    """One official node test, which can be pickled."""

    name: str
    model: bytes
    data: tuple[tuple[Any, ...], tuple[Any, ...]]
    rtol: float
    atol: float


def official(only: Sequence[str]) -> list[NodeTest]:
    """Returns the node tests of the installed onnx, without expansions into functions."""
    tests = []
    for case in collected():
        wanted = not only or any(fnmatch.fnmatch(case.name, pattern) for pattern in only)
        if case.model is None or not case.data_sets or "_expanded" in case.name or not wanted:
            continue
        inputs, outputs = case.data_sets[0]
        data = (tuple(map(_plain, inputs)), tuple(map(_plain, outputs)))
        text = case.model.SerializeToString()
        tests.append(NodeTest(case.name, text, data, case.rtol or 1e-3, case.atol or 1e-7))
    return tests


def collected() -> list[Any]:
    """Returns the node tests of the installed onnx, and hides its warnings."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(collect_testcases(None))


def _plain(value: Any) -> Any:
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, onnx.SequenceProto):
        return numpy_helper.to_list(value)
    if isinstance(value, onnx.OptionalProto):
        return numpy_helper.to_optional(value)
    return value


def subject(model: ModelProto) -> tuple[str, str]:
    """Returns the operator under test: the first outside ai.onnx, or else the first operator."""
    keys = [(schemas.normal(n.domain), n.op_type) for n in model.graph.node]
    return next((key for key in keys if key[0]), keys[0])


def targets(model: ModelProto, domain: str) -> list[int]:
    """Returns the targets: the last opset of each operator version, and lower opsets."""
    used = {n.op_type for n in model.graph.node if schemas.normal(n.domain) == domain}
    newest = schemas.latest(domain) or 1
    births = [schemas.history(domain, op) for op in used if schemas.history(domain, op)]
    starts = {schema.since for history in births for schema in history}
    born = max(history[0].since for history in births)
    tops = {since - 1 for since in starts if since - 1 >= born} | {newest}
    below = {v for v in (born - 1, *BELOW) if 1 <= v < born}
    version = {schemas.normal(i.domain): i.version for i in model.opset_import}[domain]
    return sorted((tops | below) - {version})


def nested(model: ModelProto) -> ModelProto:
    """Moves the graph into both branches of an If."""
    moved = copied(model)
    graph = moved.graph
    branch = onnx.GraphProto(name="branch")
    branch.node.extend(graph.node)
    branch.output.extend(graph.output)
    branch.initializer.extend(graph.initializer)
    del graph.node[:], graph.initializer[:]
    graph.input.append(helper.make_tensor_value_info("which_way", onnx.TensorProto.BOOL, []))
    other = onnx.GraphProto()
    other.CopyFrom(branch)
    other.name = "other"
    if not any(schemas.normal(i.domain) == "" for i in moved.opset_import):
        moved.opset_import.append(helper.make_opsetid("", 21))
    names = [output.name for output in graph.output]
    graph.node.append(
        helper.make_node("If", ["which_way"], names, then_branch=branch, else_branch=other)
    )
    return moved


def function(model: ModelProto) -> ModelProto:
    """Moves the graph into a model-local function."""
    moved = copied(model)
    graph = moved.graph
    body = FunctionProto(name="Body", domain="moved")
    body.input.extend(i.name for i in graph.input)
    body.output.extend(o.name for o in graph.output)
    for tensor in graph.initializer:
        body.node.append(helper.make_node("Constant", [], [tensor.name], value=tensor))
    body.node.extend(graph.node)
    body.opset_import.extend(moved.opset_import)
    del graph.node[:], graph.initializer[:]
    graph.node.append(helper.make_node("Body", body.input, body.output, domain="moved"))
    moved.functions.append(body)
    moved.opset_import.append(helper.make_opsetid("moved", 1))
    moved.ir_version = max(moved.ir_version, 8)
    return moved


def functions(model: ModelProto) -> ModelProto:
    """Moves each node of the graph into a function of its own."""
    moved = copied(model)
    del moved.graph.node[:]
    for number, node in enumerate(model.graph.node):
        body = FunctionProto(name=f"Body{number}", domain="moved", node=[node])
        body.input.extend(sorted({*filter(None, reads(node))}))
        body.output.extend(filter(None, node.output))
        body.opset_import.extend(model.opset_import)
        moved.functions.append(body)
        moved.graph.node.append(
            helper.make_node(body.name, body.input, body.output, domain="moved")
        )
    moved.opset_import.append(helper.make_opsetid("moved", 1))
    moved.ir_version = max(moved.ir_version, 8)
    return moved


SHAPES = {"flat": lambda model: model, "if": nested, "function": function}
