# SPDX-License-Identifier: Apache-2.0
"""Lists the contents of a model from its bytes, in one parse without a loop over nodes."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from google.protobuf.message import DecodeError

from opshift.model.bytes import outline_pb2 as outline
from opshift.model.bytes import wire
from opshift.model.bytes.wire import Buffer
from opshift.opsets.elements import ELEMENTS, OLDEST

if TYPE_CHECKING:
    from opshift.protos import ModelProto

_Graph = TypeVar("_Graph", outline.Graph, outline.SizedGraph)
_View = TypeVar("_View", "Content", "Sizes")
_SMALL = 64 << 20
_EXTERNAL = 1  # TensorProto.DataLocation


def skeleton(data: Buffer) -> bytes:
    """Returns the bytes of a model; without its weights if the model is large."""
    if len(data) <= _SMALL:  # a parse of all bytes is faster than carving
        return data[:]
    return wire.carve(data, wire.THRESHOLD)[0]


class Content:
    """The kinds of content in a model, at any depth; see `outline.proto`."""

    def __init__(self, data: bytes) -> None:
        self.all = outline.Outline.FromString(data)
        tops = [self.all.graph, *self._training()]
        self.graphs = [graph for top in tops for graph in _with_nested(top)]
        self.graphs += _nested(self._functions())
        self.nodes = [graph.node for graph in self.graphs]
        self.attributes = [node.attribute for node in self.nodes]
        if self.all.HasField("functions"):
            function = self.all.functions
            self.nodes.append(function.node)
            self.attributes += [function.node.attribute, function.attribute_proto]
        self.tensors = [*self._tensors()]
        self.values = [
            value
            for graph in self.graphs
            for value in (graph.input, graph.output, graph.value_info)
        ]

    def _training(self) -> list[outline.Graph]:
        training = self.all.training_info
        return [training.initialization, training.algorithm]

    def _functions(self) -> list[outline.Attribute]:
        return [self.all.functions.node.attribute, self.all.functions.attribute_proto]

    def _tensors(self) -> Iterator[outline.Tensor]:
        sparse = [graph.sparse_initializer for graph in self.graphs]
        for attribute in self.attributes:
            sparse += [attribute.sparse_tensor, attribute.sparse_tensors]
            yield from (attribute.t, attribute.tensors)
        yield from (graph.initializer for graph in self.graphs)
        for one in sparse:
            yield from (one.values, one.indices)

    @property
    def external(self) -> bool:
        """Returns whether the data of some tensor is in another file."""
        return any(_EXTERNAL in tensor.data_location for tensor in self.tensors)

    @property
    def bare_initializers(self) -> bool:
        """Returns whether an initializer may be missing among the graph inputs."""
        graph, nested = self.all.graph, self.graphs[1:]
        named = set(graph.initializer.name) <= set(graph.input.name)
        return not named or any(one.initializer.name for one in nested)

    @property
    def is_nested(self) -> bool:
        """Returns whether a node of the main graph has a subgraph."""
        held = self.all.graph.node.attribute
        return held.HasField("g") or held.HasField("graphs")

    @property
    def has_functions(self) -> bool:
        """Returns whether the model has functions."""
        return self.all.HasField("functions")

    @property
    def is_flat(self) -> bool:
        """Returns whether the main graph is the only graph or function of the model."""
        return not (self.is_nested or self.has_functions or self.all.HasField("training_info"))

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
        found: set[str] = set()
        declared = [attribute.tp for attribute in self.attributes]
        declared += [attribute.type_protos for attribute in self.attributes]
        declared += [value.type for value in self.values]
        declared.append(self.all.functions.value_info.type)
        for one in declared:
            _add_type(one, numbers, found)
        known = (ELEMENTS[n] for n in numbers if n in ELEMENTS)
        return found | {row.name for row in known if row.ir > OLDEST}

    def operators(self) -> set[str]:
        """Returns the names of all operators and functions that nodes call."""
        return {name.decode(errors="replace") for node in self.nodes for name in set(node.op_type)}


class Sizes:
    """The declared sizes of values, and the tensors of a model, at any depth."""

    def __init__(self, data: bytes) -> None:
        self.all = outline.Sizes.FromString(data)
        self.graphs = [*_with_nested(self.all.graph)]

    def declared(self) -> Iterator[int]:
        """Yields the declared sizes of values in the main graph and its subgraphs."""
        for graph in self.graphs:
            for value in (graph.input, graph.output, graph.value_info):
                yield from value.type.tensor_type.shape.dim.dim_value

    def tensors(self) -> Iterator[outline.SizedTensor]:
        """Yields every tensor of the model."""
        training, function = self.all.training_info, self.all.functions
        graphs = [*self.graphs]
        for top in (training.initialization, training.algorithm):
            graphs += _with_nested(top)
        attributes = [function.node.attribute, function.attribute_proto]
        graphs += _nested(attributes)
        attributes += [graph.node.attribute for graph in graphs]
        sparse = [graph.sparse_initializer for graph in graphs]
        for graph in graphs:
            yield from graph.initializer
        for attribute in attributes:
            sparse += [attribute.sparse_tensor, attribute.sparse_tensors]
            yield from attribute.t
            yield from attribute.tensors
        for one in sparse:
            yield from one.values
            yield from one.indices


def look_at(kind: type[_View], data: bytes) -> _View:
    """Parses the outline of a model; after an error, again without the unknown fields."""
    try:
        return kind(data)
    except DecodeError:
        from opshift.protos import ModelProto

        known = ModelProto.FromString(data)
        known.DiscardUnknownFields()
        return kind(known.SerializeToString())


class ModelBytes:
    """The bytes of a model with its outline, which is parsed at most once."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    @classmethod
    def of(cls, model: bytes | ModelProto | ModelBytes) -> ModelBytes:
        """Returns the bytes of a model that is given as bytes or as a message."""
        if isinstance(model, ModelBytes):
            return model
        return cls(model if isinstance(model, bytes) else model.SerializeToString())

    @functools.cached_property
    def content(self) -> Content:
        """Returns the kinds of content in the model."""
        return look_at(Content, self.data)

    @functools.cached_property
    def operators(self) -> set[str]:
        """Returns the names of all operators and functions that nodes call."""
        return self.content.operators()


def spans(data: bytes, *, of_function: bool) -> Sequence[bytes]:
    """Returns the bytes of each node of a graph or function."""
    kind = outline.FunctionSpans if of_function else outline.GraphSpans
    return kind.FromString(data).node


def _with_nested(graph: _Graph) -> Iterator[_Graph]:
    yield graph
    if graph.HasField("node"):
        yield from _nested([graph.node.attribute])


def _nested(attributes: Iterable[Any]) -> Iterator[Any]:
    for attribute in attributes:
        for name in ("g", "graphs"):
            if attribute.HasField(name):
                yield from _with_nested(getattr(attribute, name))


def _add_type(one: outline.Type, numbers: set[int], found: set[str]) -> None:
    """Collects the element types of a type in `numbers`, and its container types in `found`."""
    numbers.update(one.tensor_type.elem_type)
    numbers.update(one.sparse_tensor_type.elem_type)
    for field, name in _CONTAINERS.items():
        if one.HasField(field):
            found.add(name)
    for field in ("sequence_type", "optional_type"):
        if one.HasField(field):
            _add_type(getattr(one, field).elem_type, numbers, found)
    if one.HasField("map_type"):
        _add_type(one.map_type.value_type, numbers, found)


_CONTAINERS = {
    "sequence_type": "seq",
    "optional_type": "optional",
    "map_type": "map",
    "sparse_tensor_type": "sparse_tensor",
}
