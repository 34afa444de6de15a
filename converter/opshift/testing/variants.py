# SPDX-License-Identifier: Apache-2.0
"""Derives models from an example: unknown shapes, other types, in subgraphs, more attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from opshift.model.walk import graphs_directly_in, graphs_in, holds_graphs
from opshift.protos import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
)
from opshift.protos.whole import helper
from opshift.testing.node_variants import completed, node_variants, subject

CONDITION = "in_the_branch"
UNKNOWN_SIZES = "unknown sizes"
BRANCHES_INSIDE = "branches inside"
TYPES = {
    "double": TensorProto.DOUBLE,
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
    "int32": TensorProto.INT32,
    "uint8": TensorProto.UINT8,
    "uint64": TensorProto.UINT64,
    "bool": TensorProto.BOOL,
    "string": TensorProto.STRING,
    "complex64": TensorProto.COMPLEX64,
}
SIZES_OF, GIVEN = "{}_sizes", "{}_given"
"""The names of two inputs that replace one input: its sizes, and its elements."""
OF_IR_4 = 9  # an opset that IR 4, the oldest IR version of an example, supports
RESHAPE = 5  # the opset from which the shape of Reshape can be computed


def variants(
    model: ModelProto, domain: str, ops: tuple[str, ...],
    is_wanted: Callable[[str], bool] = lambda name: True,
) -> Iterator[tuple[str, ModelProto]]:  # fmt: skip
    """Yields variants with names; of equal names, a caller uses the first legal variant."""
    ways: dict[str, Callable[[ModelProto], ModelProto]] = {
        "unknown rank": _without_ranks,
        UNKNOWN_SIZES: _without_sizes,
        "in a branch": _in_a_branch,
        BRANCHES_INSIDE: _branches_inside,
        **{f"of {name}": partial(_of_type, elem_type) for name, elem_type in TYPES.items()},
    }
    node = subject(model, domain, ops)
    for name, change in ways.items():
        if is_wanted(name) and _fits(model, name, described=node is not None):
            yield name, change(model)
    if node is not None:
        yield from node_variants(_copy(model), node, is_wanted)


def legal_variants(
    model: ModelProto, domain: str, ops: tuple[str, ...], is_legal: Callable[[ModelProto], bool]
) -> Iterator[tuple[str, ModelProto]]:
    """Yields the first legal variant of each name, then one with all legal additions."""
    done = set[str]()
    for name, variant in variants(model, domain, ops, lambda name: name not in done):
        if is_legal(variant):
            done.add(name)
            yield name, variant
    node = subject(model, domain, ops)
    if node is not None:
        yield "everything", completed(_copy(model), node, is_legal)


def feeds(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns inputs for every variant, derived from the inputs of the example."""
    inputs = {CONDITION: True, **values}
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            sizes = np.array(value.shape, np.int64)
            inputs |= {GIVEN.format(name): value, SIZES_OF.format(name): sizes}
    return inputs


def _fits(model: ModelProto, name: str, *, described: bool) -> bool:
    """Returns whether a variant of this name can be derived from the model."""
    if name == "in a branch":
        return not model.graph.sparse_initializer
    if name == BRANCHES_INSIDE:
        return any(holds_graphs(node) for node in model.graph.node)
    if name.startswith("of "):  # without a schema, the legal types are unknown
        return described
    return name != "unknown rank" or all(version >= RESHAPE for version in _opsets(model))


def _opsets(model: ModelProto) -> list[int]:
    """Returns the version of ai.onnx in a list, which is empty if it is not imported."""
    return [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]


def _copy(model: ModelProto) -> ModelProto:
    """Copies a model without declared types of inner values; the copy imports ai.onnx."""
    copy = ModelProto()
    copy.CopyFrom(model)
    del copy.graph.value_info[:]
    if not _opsets(copy):
        copy.opset_import.add(domain="", version=OF_IR_4)
    return copy


def _declared(model: ModelProto) -> Iterator[ValueInfoProto]:
    fed = {tensor.name for tensor in model.graph.initializer}
    yield from (info for info in model.graph.input if info.name not in fed)
    yield from model.graph.output


def _without_ranks(model: ModelProto) -> ModelProto:
    """Inserts a Reshape after each input, to sizes that are known only at run time."""
    copy = _without_sizes(model)
    names = {tensor.name for tensor in copy.graph.initializer}
    for info in list(copy.graph.input):
        if info.name in names or not info.type.HasField("tensor_type"):
            continue
        elements, sizes = GIVEN.format(info.name), SIZES_OF.format(info.name)
        node = NodeProto(op_type="Reshape", input=[elements, sizes], output=[info.name])
        copy.graph.node.insert(0, node)
        info.name = elements
        copy.graph.input.append(
            helper.make_tensor_value_info(sizes, TensorProto.INT64, [f"rank_of_{elements}"])
        )
    return copy


def _without_sizes(model: ModelProto) -> ModelProto:
    copy = _copy(model)
    for info in _declared(copy):
        for place, dim in enumerate(info.type.tensor_type.shape.dim):
            dim.dim_param = f"{info.name}_{place}"
    return copy


def _in_a_branch(model: ModelProto) -> ModelProto:
    """Moves all nodes into both branches of an If; the branches capture the inputs."""
    copy = _copy(model)
    _into_branches(copy.graph, "")
    copy.graph.input.append(helper.make_tensor_value_info(CONDITION, TensorProto.BOOL, []))
    return copy


def _branches_inside(model: ModelProto) -> ModelProto:
    """Moves the nodes of each subgraph into both branches of an If."""
    copy = _copy(model)
    for number, graph in enumerate(graphs_directly_in(copy.graph)):
        _into_branches(graph, f"_{number}")
    copy.graph.input.append(helper.make_tensor_value_info(CONDITION, TensorProto.BOOL, []))
    return copy


def _into_branches(graph: GraphProto, suffix: str) -> None:
    branches = []
    for name in ("then_branch", "else_branch"):
        inner = helper.make_graph(list(graph.node), f"{name}{suffix}", [], list(graph.output))
        branches.append(AttributeProto(name=name, type=AttributeProto.GRAPH, g=inner))
    for branch in branches:
        for info in branch.g.output:
            _rename_output(branch, info, f"{info.name}_{branch.name}")
    del graph.node[:]
    outputs = [output.name for output in graph.output]
    graph.node.add(op_type="If", input=[CONDITION], output=outputs, attribute=branches)


def _rename_output(branch: AttributeProto, info: ValueInfoProto, name: str) -> None:
    branch.g.node.append(NodeProto(op_type="Identity", input=[info.name], output=[name]))
    info.name = name


def _of_type(elem_type: int, model: ModelProto) -> ModelProto:
    """Changes the element type of float inputs and outputs; constants in nodes stay float."""
    copy = _copy(model)
    for graph in graphs_in(copy.graph):
        fed = {tensor.name for tensor in graph.initializer}
        for info in (*graph.input, *graph.output):
            kind = info.type
            while kind.HasField("sequence_type"):
                kind = kind.sequence_type.elem_type
            if info.name not in fed and kind.tensor_type.elem_type == TensorProto.FLOAT:
                kind.tensor_type.elem_type = elem_type
    return copy
