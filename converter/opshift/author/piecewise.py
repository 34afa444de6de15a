# SPDX-License-Identifier: Apache-2.0
"""Runs onnx's inference on pieces of a large model, because its time grows faster than the model.

For each subgraph of a node, onnx copies the types of all outer values; for each function call, onnx
copies all functions. A piece of the model contains only the values and functions that its nodes
use. A function with many graphs is inferred as a chain of shorter functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from opshift.author.body_parts import LongFunctions, graph_count, split
from opshift.author.model_bytes import ModelBytes
from opshift.model.functions import called, calls_of, functions_of
from opshift.model.names import unused_prefix
from opshift.model.scope import call_id, tensor_type
from opshift.model.walk import (
    graphs_directly_in,
    graphs_in,
    holds_graphs,
    reads,
)
from opshift.opsets.types import tensors_in
from opshift.protos import (
    FunctionProto,
    ModelProto,
    NodeProto,
    TensorShapeProto,
    TypeProto,
    ValueInfoProto,
)
from opshift.protos.shape_inference import InferenceError, infer_shapes

PIECE = 64  # the number of subgraphs and calls in one piece
MOST_COPIES = 1 << 20  # the most entries that inference of the whole model may copy
SMALL = 1 << 16  # a model of fewer bytes is too small for so many copies


def infer(model: ModelBytes, *, strict: bool = False, data_prop: bool = False) -> ModelProto:
    """Runs onnx's inference on the whole model, or on its pieces if the whole would be slow."""
    options = {
        "check_type": strict, "strict_mode": strict, "data_prop": data_prop, "risky": model.risky
    }  # fmt: skip
    if not is_slow(model):
        return infer_shapes(model.data, **options)
    whole, prefix = ModelProto.FromString(model.data), unused_prefix(model.data)
    long = LongFunctions(whole, _is_long, prefix, PIECE)
    if not long.parts:
        return _in_pieces(whole, prefix, options)
    try:
        inferred = _in_pieces(long.cut(), prefix, options)
    except InferenceError:  # names a part instead of the function
        return infer_shapes(model.data, **options)
    long.join(inferred)
    return inferred


def _in_pieces(model: ModelProto, prefix: str, options: dict[str, bool]) -> ModelProto:
    types = _Types(model, prefix)
    for number, part in enumerate(types.parts()):
        piece = types.piece(part)
        types.take(infer_shapes(piece, **options), part, number, piece)
    return types.written()


def is_slow(seen: ModelBytes) -> bool:
    """Returns whether inference of the whole model would copy too many types or functions."""
    if len(seen.data) < SMALL or not (seen.content.is_nested or seen.content.has_functions):
        return False
    model = ModelProto.FromString(seen.data)
    values = len(model.graph.node) + len(model.graph.initializer) + len(model.graph.input)
    graphs = sum(1 for _ in graphs_directly_in(model.graph))
    if graphs * values > MOST_COPIES:
        return True
    functions = functions_of(model)
    calls = sum(call_id(node) in functions for node in model.graph.node) if functions else 0
    return calls * len(functions) > MOST_COPIES or any(map(_is_long, functions.values()))


def _is_long(body: FunctionProto) -> bool:
    """Returns whether inference of the function would copy too many types."""
    graphs = sum(1 for _ in graphs_directly_in(body))
    return graphs * (len(body.node) + len(body.input)) > MOST_COPIES


class _Types:
    """The declared and inferred types of the values of a graph."""

    def __init__(self, model: ModelProto, prefix: str) -> None:
        self.model = model
        self.prefix = prefix  # for the symbols that inference generates
        graph = model.graph
        self.weights = {tensor.name: tensor for tensor in graph.initializer}
        self.given = {info.name: info for info in graph.input}
        self.declared: dict[str, ValueInfoProto] = {}
        for info in (*graph.value_info, *graph.output):
            self.declared.setdefault(info.name, info)
        self.known: dict[str, TypeProto] = {
            **{name: info.type for name, info in self.declared.items()},
            **{name: tensor_type(tensor) for name, tensor in self.weights.items()},
            **{name: info.type for name, info in self.given.items()},
        }
        self.inferred: dict[str, TypeProto] = {}
        self.functions = functions_of(model)
        self.calls = calls_of(self.functions)

    def parts(self) -> Iterator[range]:
        """Yields the positions of the nodes of each piece."""

        def weight(node: NodeProto) -> int:
            return graph_count(node) + (call_id(node) in self.functions)

        return split(self.model.graph.node, weight, PIECE)

    def piece(self, part: Sequence[int]) -> ModelProto:
        """Builds a model of some nodes, with every value that they read as input or initializer."""
        model = self.model
        small_model = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
        graph = small_model.graph
        graph.name = model.graph.name
        nodes = [model.graph.node[position] for position in part]
        graph.node.extend(nodes)
        written = {name for node in nodes for name in node.output}
        for name in dict.fromkeys(name for node in nodes for name in reads(node)):
            if name in written:
                continue
            if (tensor := self.weights.get(name)) is not None:
                graph.initializer.append(tensor)
            if tensor is None or name in self.given:
                info = graph.input.add(name=name)
                if (kind := self.known.get(name)) is not None:
                    info.type.CopyFrom(kind)
        graph.value_info.extend(self.declared[name] for name in written & self.declared.keys())
        used = sorted(called(nodes, self.calls))
        small_model.functions.extend(self.functions[which] for which in used)
        return small_model

    def take(self, found: ModelProto, part: Sequence[int], number: int, piece: ModelProto) -> None:
        """Stores the types of a piece; renames new symbols, so that no other piece has them."""
        if symbolic := [dim for dim in _dims(found) if dim.dim_param]:
            given = {dim.dim_param for dim in _dims(piece)}
            for dim in symbolic:
                if dim.dim_param not in given:
                    dim.dim_param = f"{self.prefix}{number}_{dim.dim_param}"
        for info in found.graph.value_info:
            self.known[info.name] = self.inferred[info.name] = info.type
        for position, node in zip(part, found.graph.node, strict=True):
            if holds_graphs(node):
                self.model.graph.node[position].CopyFrom(node)

    def written(self) -> ModelProto:
        """Returns the model with the inferred types."""
        graph = self.model.graph
        for info in (*graph.output, *graph.value_info):
            if (kind := self.inferred.pop(info.name, None)) is not None:
                info.type.CopyFrom(kind)
        for name, kind in self.inferred.items():
            graph.value_info.add(name=name).type.CopyFrom(kind)
        return self.model


def _dims(model: ModelProto) -> Iterator[TensorShapeProto.Dimension]:
    """Yields the dimensions of all types in the graphs of a model."""
    for graph in graphs_in(model.graph):
        for info in (*graph.input, *graph.value_info, *graph.output):
            for tensor in tensors_in(info.type):
                yield from tensor.shape.dim
