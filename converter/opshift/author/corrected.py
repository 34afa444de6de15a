# SPDX-License-Identifier: Apache-2.0
"""Infers the shapes of a whole model, and corrects dimensions that onnx infers wrongly."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from opshift.author import safe_inference
from opshift.author.env import TypesOnly
from opshift.author.model_bytes import ModelBytes
from opshift.author.node import Node
from opshift.author.scope_types import by_graph
from opshift.author.traits import DeclaredRules, OutputShapes, ToldDims, answer_of
from opshift.model import imports
from opshift.model.arrays import Array, to_array
from opshift.model.functions import behind, callers_of, calls_of, functions_of
from opshift.model.scope import FunctionId, call_id
from opshift.model.walk import graphs_in, nodes_in
from opshift.opsets import schemas
from opshift.opsets.types import dims_of, rank_of
from opshift.protos import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, helper
from opshift.protos.copies import copy_of

Rules: TypeAlias = Mapping[tuple[str, str], OutputShapes]
Output: TypeAlias = tuple[int, int]  # a node's number in the model, and the output
ROUNDS = 4  # because one wrong length can hide another; the last round infers no outputs
HIDDEN = "opshift.hidden."
MOST_ELEMENTS = 64  # of a constant that a rule reads, such as one scale for each axis


def infer(
    model: bytes | ModelProto | ModelBytes, adapters: DeclaredRules, *, strict: bool = False
) -> ModelProto:
    """Runs onnx's inference, and replaces the output shapes that a rule proves wrong.

    Inference then runs again with the shapes from the rules. With `strict`, this last run raises an
    error if a declared shape contradicts an inferred one.
    """
    rules = adapters.rules(OutputShapes)
    source = ModelBytes.of(model)
    inferred = safe_inference.infer(source, adapters, data_prop=True)
    if not strict and source.operators.isdisjoint(op for _, op in rules):
        return inferred
    misjudged: dict[Output, TypeProto] = {}
    for rounds_left in range(ROUNDS, -1, -1):
        new = dict(_misjudged(inferred, rules, all_of_them=not rounds_left))
        if not new.keys() - misjudged.keys():
            break
        misjudged |= new
        inferred = _without(source.data, misjudged, adapters)
    return _without(source.data, misjudged, adapters, strict=True) if strict else inferred


def shapes_of(rule: OutputShapes | None, node: Node) -> Sequence[ToldDims | None]:
    """Returns the shapes that the rule computes for the outputs of a node."""
    return (answer_of(rule.run, node) or ()) if rule is not None else ()


def is_wrong(inferred: TypeProto | None, dims: ToldDims | None) -> bool:
    """Returns whether an inferred shape has a dimension that a rule does not confirm."""
    if inferred is None or dims is None or rank_of(inferred) is None:
        return False
    lengths = dims_of(inferred)
    return len(lengths) != len(dims) or any(
        isinstance(length, int) and dim is not ... and length != dim
        for length, dim in zip(lengths, dims, strict=True)
    )


def give_shape(kind: TypeProto, dims: ToldDims) -> None:
    """Writes a shape into a type; a dimension given as `...` is not changed."""
    old = dims_of(kind)
    sizes = [
        dim if dim is not ... else old[i] if len(old) == len(dims) else None
        for i, dim in enumerate(dims)
    ]
    kind.tensor_type.ClearField("shape")
    helper.add_dims(kind, sizes)


def _misjudged(
    model: ModelProto, rules: Rules, *, all_of_them: bool
) -> Iterator[tuple[Output, TypeProto]]:
    """Yields each output for which a rule corrects an inferred length, with the corrected type."""
    versions = imports.versions(model)
    calls = _calls(model, rules)
    envs = ((one.graph, TypesOnly(one.visible, _constants(one.graph))) for one in by_graph(model))
    pairs = ((env, node) for graph, env in envs for node in graph.node)
    for i, (env, node) in enumerate(pairs):
        domain = schemas.normal(node.domain)
        shapes: Sequence[ToldDims | None] = ()
        if call_id(node) in calls:
            # A rule cannot run inside the function, so no length of the outputs is used.
            ranks = [rank_of(env.type(name)) for name in node.output]
            shapes = [None if rank is None else (None,) * rank for rank in ranks]
        elif (rule := rules.get((domain, node.op_type))) is not None:
            schema = schemas.schema(domain, node.op_type, versions.get(domain, 0))
            shapes = shapes_of(rule, Node(node, schema, env)) if schema is not None else ()
        for j, (name, dims) in enumerate(zip(node.output, shapes, strict=False)):
            inferred = env.type(name) if name else None
            if inferred is None or dims is None:
                continue
            if all_of_them or is_wrong(inferred, dims):
                kind = copy_of(inferred)
                give_shape(kind, dims)
                yield (i, j), kind


def _constants(graph: GraphProto) -> Callable[[str], Array | None]:
    """Returns a function that reads the small constants of a graph."""
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            tensors[node.output[0]] = node.attribute[0].t

    def read(name: str) -> Array | None:
        tensor = tensors.get(name)
        if tensor is None or tensor.data_location == TensorProto.EXTERNAL:
            return None
        return to_array(tensor) if math.prod(tensor.dims) <= MOST_ELEMENTS else None

    return read


def _calls(model: ModelProto, rules: Rules) -> set[FunctionId]:
    """Finds the functions that contain, directly or through calls, an operator with a rule."""
    bodies = functions_of(model)
    calls = calls_of(bodies)
    corrected = {
        which
        for which, body in bodies.items()
        if any((schemas.normal(node.domain), node.op_type) in rules for node in nodes_in(body))
    }
    return corrected | behind(callers_of(calls), *corrected)


def _numbered(model: ModelProto) -> Iterator[tuple[GraphProto, NodeProto]]:
    for graph in graphs_in(model.graph):
        for node in graph.node:
            yield graph, node


def _without(
    model: bytes,
    misjudged: Mapping[Output, TypeProto],
    adapters: DeclaredRules,
    *,
    strict: bool = False,
) -> ModelProto:
    """Runs inference of a model, but with given types for some of the outputs."""
    copy = ModelProto.FromString(model)
    numbered = list(_numbered(copy))
    names: dict[Output, str] = {}
    for (i, j), kind in misjudged.items():
        graph, node = numbered[i]
        names[i, j], node.output[j] = node.output[j], f"{HIDDEN}{i}.{j}"
        _write_type(graph, names[i, j], kind)
    inferred = safe_inference.infer(copy, adapters, strict=strict, data_prop=not strict)
    numbered = list(_numbered(inferred))
    for (i, j), name in names.items():
        graph, node = numbered[i]
        node.output[j] = name
        for at in range(len(graph.value_info) - 1, -1, -1):
            if graph.value_info[at].name.startswith(HIDDEN):
                del graph.value_info[at]
    return inferred


def _write_type(graph: GraphProto, name: str, kind: TypeProto) -> None:
    infos = [info for info in (*graph.output, *graph.value_info) if info.name == name]
    for info in infos or [graph.value_info.add(name=name)]:
        info.type.CopyFrom(kind)
