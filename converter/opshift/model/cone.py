# SPDX-License-Identifier: Apache-2.0
"""Extracts the part of a model that computes some of its values."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping

from opshift.model import functions, walk
from opshift.protos import FunctionProto, GraphProto, ModelProto, NodeProto, TypeProto


def needed(graph: GraphProto, values: Iterable[str], known: Container[str] = ()) -> list[NodeProto]:
    """Returns the nodes of a graph that compute some values from known values."""
    producers = {name: i for i, node in enumerate(graph.node) for name in node.output if name}
    waiting, positions = [*values], set[int]()
    while waiting:
        name = waiting.pop()
        place = producers.get(name)
        if place is not None and place not in positions and name not in known:
            positions.add(place)
            waiting += walk.reads(graph.node[place])
    return [graph.node[place] for place in sorted(positions)]


def called(model: ModelProto, nodes: Iterable[NodeProto]) -> Iterator[FunctionProto]:
    """Yields the functions that some nodes call, directly or through other functions."""
    bodies = functions.functions_of(model)
    functions_called = functions.called(nodes, functions.calls_of(bodies))
    return (body for which, body in bodies.items() if which in functions_called)


def cone(model: ModelProto, values: Iterable[str]) -> ModelProto:
    """Builds a model of only the parts on which some values depend."""
    nodes = needed(model.graph, values)
    names = {name for node in nodes for name in (*walk.reads(node), *node.output)}
    small = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    small.functions.extend(called(model, nodes))
    small.graph.name = model.graph.name
    small.graph.node.extend(nodes)
    for field in ("input", "output", "value_info", "initializer"):
        elements = (element for element in getattr(model.graph, field) if element.name in names)
        getattr(small.graph, field).extend(elements)
    sparse = model.graph.sparse_initializer
    small.graph.sparse_initializer.extend(
        element for element in sparse if element.values.name in names
    )
    return small


class SingleNodes:
    """Models of one node of the main graph each; the values that the node reads are inputs.

    Initializers and the results of Constant nodes stay constant.
    """

    def __init__(self, model: ModelProto, types: Mapping[str, TypeProto | None]) -> None:
        graph = model.graph
        self.model = model
        self.initializers = {tensor.name: tensor for tensor in graph.initializer}
        inferred = {name: kind for name, kind in types.items() if name not in self.initializers}
        self.types = {**inferred, **{info.name: info.type for info in graph.input}}
        constants = (node for node in graph.node if node.op_type == "Constant")
        self.constants = {name: node for node in constants for name in node.output}

    def model_of(self, node: NodeProto) -> ModelProto:
        """Returns the model of a node as it is now."""
        small = ModelProto(ir_version=self.model.ir_version, opset_import=self.model.opset_import)
        small.functions.extend(called(self.model, [node]))
        graph = small.graph
        graph.name = self.model.graph.name
        for name in dict.fromkeys(walk.reads(node)):
            if name in self.initializers:
                graph.initializer.append(self.initializers[name])
            if name in self.constants:
                graph.node.append(self.constants[name])
            elif kind := self.types.get(name):
                graph.input.add(name=name, type=kind)
        graph.node.append(node)
        return small
