"""Every node of a model with the versions it reads, through subgraphs and functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto

from opshift.model.document import function_id
from opshift.model.scope import FunctionId, call_id, graphs_of
from opshift.opsets import schemas

Imports = Mapping[str, int]


def imports(owner: ModelProto | FunctionProto) -> dict[str, int]:
    """The version of each domain."""
    return {schemas.normal(entry.domain): entry.version for entry in owner.opset_import}


def nodes(model: ModelProto) -> Iterator[tuple[NodeProto, Imports]]:
    """All nodes but calls of the model's own functions."""
    own = {function_id(function) for function in model.functions}
    yield from _below(model.graph.node, imports(model), own)
    for function in model.functions:
        yield from _below(function.node, imports(function), own)


def _below(
    nodes: Iterable[NodeProto], versions: Imports, own: set[FunctionId]
) -> Iterator[tuple[NodeProto, Imports]]:
    for node in nodes:
        if call_id(node) not in own:
            yield node, versions
        for _, graph in graphs_of(node):
            yield from _below(graph.node, versions, own)


def functions(model: ModelProto) -> dict[FunctionId, FunctionProto]:
    """The model's own functions by what calls them."""
    return {function_id(function): function for function in model.functions}


def captured(graph: GraphProto) -> Iterator[str]:
    """The names that a subgraph's nodes read, at any depth; its own are among them."""
    for node in graph.node:
        yield from node.input
        for _, inner in graphs_of(node):
            yield from captured(inner)
    yield from (output.name for output in graph.output)


def reads(node: NodeProto) -> set[str]:
    """All names that a node and its subgraphs read."""
    inner = (name for _, graph in graphs_of(node) for name in captured(graph))
    return {name for name in (*node.input, *inner) if name}
