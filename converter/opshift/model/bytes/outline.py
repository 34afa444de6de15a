# SPDX-License-Identifier: Apache-2.0
"""Lists the contents of a model from its bytes, in one parse without a loop over nodes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, TypeVar

from google.protobuf.message import DecodeError

from opshift.model.bytes import outline_pb2 as outline
from opshift.model.bytes import wire
from opshift.model.bytes.wire import Buffer
from opshift.opsets.elements import ELEMENTS, OLDEST

_View = TypeVar("_View", "Content", "Sizes")
_SMALL = 64 << 20
_EXTERNAL = 1  # TensorProto.DataLocation
# The tags of the fields of a node, which all have a length.
_NODE_FIELDS = range(1 << 3 | 2, (10 << 3 | 2) + 1, 8)
_INPUT, _OUTPUT = _NODE_FIELDS[:2]
_OPERATION = frozenset(number << 3 | 2 for number in (4, 5, 7, 8))  # also domain and overload


def skeleton(data: Buffer) -> bytes:
    """Returns the bytes of a model; without its weights if the model is large."""
    if len(data) <= _SMALL:  # a parse of all bytes is faster than carving
        return data[:]
    return wire.carve(data, wire.THRESHOLD)[0]


class _Parts:
    """The graphs and attributes of an outline, at any depth."""

    def __init__(self, whole: Any) -> None:
        training, function = whole.training_info, whole.functions
        defaults = [function.node.attribute, function.attribute_proto]
        self.main = [*_with_nested(whole.graph)]
        self.graphs = [*self.main, *_nested(defaults)]
        for graph in (training.initialization, training.algorithm):
            self.graphs += _with_nested(graph)
        self.attributes = [*(graph.node.attribute for graph in self.graphs), *defaults]

    def tensor_fields(self) -> Iterator[Any]:
        """Yields each field that holds tensors."""
        sparse = [graph.sparse_initializer for graph in self.graphs]
        for attribute in self.attributes:
            sparse += [attribute.sparse_tensor, attribute.sparse_tensors]
            yield from (attribute.t, attribute.tensors)
        yield from (graph.initializer for graph in self.graphs)
        for tensor in sparse:
            yield from (tensor.values, tensor.indices)


class Content(_Parts):
    """The kinds of content in a model, at any depth; see `outline.proto`."""

    def __init__(self, data: bytes) -> None:
        self.all = outline.Outline.FromString(data)
        super().__init__(self.all)
        self.nodes = [*(graph.node for graph in self.graphs), self.all.functions.node]

    @cached_property
    def tensors(self) -> list[Any]:
        """Returns each field that holds tensors."""
        return [*self.tensor_fields()]

    @cached_property
    def values(self) -> list[Any]:
        """Returns each field that holds named values."""
        return [
            value
            for graph in self.graphs
            for value in (graph.input, graph.output, graph.value_info)
        ]

    @property
    def external(self) -> bool:
        """Returns whether the data of some tensor is in another file."""
        return any(_EXTERNAL in tensor.data_location for tensor in self.tensors)

    @property
    def bare_initializers(self) -> bool:
        """Returns whether an initializer may be missing among the graph inputs."""
        graph, *nested = self.graphs
        named = set(graph.initializer.name) <= set(graph.input.name)
        return not named or any(inner.initializer.name for inner in nested)

    @property
    def is_nested(self) -> bool:
        """Returns whether a node of the main graph has a subgraph."""
        attributes = self.all.graph.node.attribute
        return attributes.HasField("g") or attributes.HasField("graphs")

    @property
    def has_functions(self) -> bool:
        """Returns whether the model has functions."""
        return self.all.HasField("functions")

    @property
    def is_flat(self) -> bool:
        """Returns whether the main graph is the only graph or function of the model."""
        return not (self.is_nested or self.has_functions or self.all.HasField("training_info"))

    @property
    def sparse_initializers(self) -> bool:
        """Returns whether a graph has a sparse initializer."""
        return any(graph.HasField("sparse_initializer") for graph in self.graphs)

    @property
    def references(self) -> bool:
        """Returns whether an attribute in a graph may refer to an attribute of a function."""
        return any(graph.node.attribute.ref_attr_name for graph in self.graphs)

    def types(self) -> set[str]:
        """Returns the containers and the newer element types (by IR version) that may occur."""
        numbers: set[int] = set()
        for tensor in self.tensors:
            numbers.update(tensor.data_type)
        for attribute in self.attributes:
            numbers.update(attribute.i)
        names: set[str] = set()
        declared = [attribute.tp for attribute in self.attributes]
        declared += [attribute.type_protos for attribute in self.attributes]
        declared += [value.type for value in self.values]
        declared.append(self.all.functions.value_info.type)
        for kind in declared:
            _add_type(kind, numbers, names)
        rows = (ELEMENTS[n] for n in numbers if n in ELEMENTS)
        return names | {element.name for element in rows if element.ir > OLDEST}

    def operators(self) -> set[str]:
        """Returns the names of all operators and functions that nodes call."""
        return {name.decode(errors="replace") for node in self.nodes for name in set(node.op_type)}


class Sizes(_Parts):
    """The declared sizes of values, and the tensors of a model, at any depth."""

    def __init__(self, data: bytes) -> None:
        super().__init__(outline.Sizes.FromString(data))

    def largest(self) -> int:
        """Returns the largest declared size of values in the main graph and its subgraphs."""
        values = (
            value for graph in self.main for value in (graph.input, graph.output, graph.value_info)
        )
        return max(max(value.type.tensor_type.shape.dim.dim_value, default=0) for value in values)

    def tensors(self) -> Iterator[outline.SizedTensor]:
        """Yields every tensor of the model."""
        return itertools.chain.from_iterable(self.tensor_fields())


def read_as(kind: type[_View], data: bytes) -> _View:
    """Parses the outline of a model; after an error, again without the unknown fields."""
    try:
        return kind(data)
    except DecodeError:
        from opshift.protos import ModelProto

        model = ModelProto.FromString(data)
        model.DiscardUnknownFields()
        return kind(model.SerializeToString())


def spans(data: bytes, *, of_function: bool) -> Sequence[bytes]:
    """Returns the bytes of each node of a graph or function."""
    kind = outline.FunctionSpans if of_function else outline.GraphSpans
    return kind.FromString(data).node


def parts_of_node(node: bytes) -> tuple[list[bytes], list[bytes], list[bytes]]:
    """Returns the inputs, the outputs, and the encoded operator and attributes of a node."""
    inputs: list[bytes] = []
    outputs: list[bytes] = []
    operation: list[bytes] = []
    at, end = 0, len(node)
    while at < end and (tag := node[at]) in _NODE_FIELDS:
        field, size = at, node[at + 1]
        size, start = (size, at + 2) if size < 0x80 else wire.read_varint(node, at + 1)
        at = start + size
        if tag == _INPUT:
            inputs.append(node[start:at])
        elif tag == _OUTPUT:
            outputs.append(node[start:at])
        elif tag in _OPERATION:
            operation.append(node[field:at])
    return inputs, outputs, operation


def _with_nested(graph: Any) -> Iterator[Any]:
    yield graph
    if graph.HasField("node"):
        yield from _nested([graph.node.attribute])


def _nested(attributes: Iterable[Any]) -> Iterator[Any]:
    for attribute in attributes:
        for name in ("g", "graphs"):
            if attribute.HasField(name):
                yield from _with_nested(getattr(attribute, name))


def _add_type(kind: outline.Type, numbers: set[int], names: set[str]) -> None:
    """Collects the element types of a type in `numbers`, and its container types in `found`."""
    numbers.update(kind.tensor_type.elem_type)
    numbers.update(kind.sparse_tensor_type.elem_type)
    for field, name in _CONTAINERS.items():
        if kind.HasField(field):
            names.add(name)
    for field in ("sequence_type", "optional_type"):
        if kind.HasField(field):
            _add_type(getattr(kind, field).elem_type, numbers, names)
    if kind.HasField("map_type"):
        _add_type(kind.map_type.value_type, numbers, names)


_CONTAINERS = {
    "sequence_type": "seq",
    "optional_type": "optional",
    "map_type": "map",
    "sparse_tensor_type": "sparse_tensor",
}
