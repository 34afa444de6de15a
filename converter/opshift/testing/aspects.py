# SPDX-License-Identifier: Apache-2.0
"""Lists the cases that the examples of an operator should cover, and finds covering nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from opshift.author import safe_inference
from opshift.author.registry import Registry
from opshift.model.walk import containers_in
from opshift.opsets.elements import T
from opshift.opsets.schemas import Param, Schema
from opshift.protos import FunctionProto, GraphProto, ModelProto, NodeProto, TypeProto, helper
from opshift.records import dataclass

CLASSES = {
    "floats": "float16 float double",
    "bfloat16": "bfloat16",
    "8-bit floats": "float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz float8e8m0 float4e2m1",
    "signed integers": "int8 int16 int32 int64",
    "unsigned integers": "uint8 uint16 uint32 uint64",
    "narrow integers": "int4 uint4 int2 uint2",
    "bool": "bool",
    "string": "string",
    "complex numbers": "complex64 complex128",
}
"""Classes of element types. An adapter should treat all types of a class in the same way."""

OF_CLASS = {
    "floats": ("of double", "of float16"),
    "bfloat16": ("of bfloat16",),
    "signed integers": ("of int32",),
    "unsigned integers": ("of uint8", "of uint64"),
    "bool": ("of bool",),
    "string": ("of string",),
    "complex numbers": ("of complex64",),
}
"""For each class: the variants of an example that cover its element types."""


@dataclass(frozen=True, slots=True)
class Use:
    """One node of the operator in a model, with the types of its inputs."""

    node: NodeProto
    inputs: tuple[TypeProto | None, ...]
    nested: bool
    runs_empty: bool

    def sets(self, name: str, default: object) -> bool:
        """Returns whether the node sets the attribute to a value other than its default."""
        for attribute in self.node.attribute:
            if attribute.name == name:
                if attribute.ref_attr_name:
                    return True
                return bool(helper.get_attribute_value(attribute) != default)
        return False

    def gives(self, place: int) -> bool:
        return place < len(self.node.input) and bool(self.node.input[place])

    def leaves_out(self, place: int) -> bool:
        return not self.gives(place)

    @property
    def tensors(self) -> list[TypeProto.Tensor]:
        """The types of all tensor inputs that are known."""
        return [
            proto.tensor_type for proto in self.inputs if proto and proto.HasField("tensor_type")
        ]

    @property
    def of_unknown_rank(self) -> bool:
        return any(not tensor.HasField("shape") for tensor in self.tensors)

    @property
    def of_unknown_size(self) -> bool:
        sizes = [dim for tensor in self.tensors for dim in tensor.shape.dim]
        return any(not dim.HasField("dim_value") for dim in sizes)

    @property
    def empty(self) -> bool:
        sizes = [dim for tensor in self.tensors for dim in tensor.shape.dim]
        return self.runs_empty or any(d.HasField("dim_value") and not d.dim_value for d in sizes)

    def has_type(self, places: tuple[int, ...], types: frozenset[int]) -> bool:
        """Returns whether an input at these positions, or a later one, has such a type."""
        return any(
            _elem_type(proto) in types
            for place, proto in enumerate(self.inputs)
            if proto is not None and (place in places or place > places[-1])
        )


def _elem_type(kind: TypeProto) -> int:
    while kind.HasField("sequence_type") or kind.HasField("optional_type"):
        sequence = kind.HasField("sequence_type")
        kind = kind.sequence_type.elem_type if sequence else kind.optional_type.elem_type
    return kind.tensor_type.elem_type


@dataclass(frozen=True, slots=True)
class Aspect:
    """A case to cover: a message if no example covers it, and a test whether a node covers it."""

    gap: str
    covered: Callable[[Use], bool]
    variants: tuple[str, ...] = ()


def aspects(schema: Schema) -> Iterator[Aspect]:
    """Yields every case to cover for an operator, at the opset from which it is converted."""
    for name, attribute in schema.attributes.items():
        if not attribute.is_graph:
            off = partial(_sets, name, attribute.default)
            yield Aspect(f"attribute {name} always has its default value", off, (name,))
    for place, param in enumerate(schema.inputs):
        if param.optional:
            yield Aspect(f"input {param.name} is never given", partial(_gives, place))
            yield Aspect(f"input {param.name} is always given", partial(_leaves_out, place))
    if any(kind.startswith("tensor(") for param in schema.inputs for kind in param.types):
        rank, sizes = "unknown rank", "unknown sizes"
        yield Aspect("no rank is unknown", lambda use: use.of_unknown_rank, (rank,))
        yield Aspect("no size is unknown", lambda use: use.of_unknown_size, (sizes, rank))
        yield Aspect("no tensor is empty", lambda use: use.empty, (sizes,))
    yield Aspect("no node is in a subgraph", lambda use: use.nested, ("in a branch",))
    yield from _of_types(schema)


def _sets(name: str, default: object, use: Use) -> bool:
    return use.sets(name, default)


def _gives(place: int, use: Use) -> bool:
    return use.gives(place)


def _leaves_out(place: int, use: Use) -> bool:
    return use.leaves_out(place)


def _of_types(schema: Schema) -> Iterator[Aspect]:
    """Yields the classes of element types that each type variable may have."""
    variables: dict[str, list[tuple[int, Param]]] = {}
    for place, param in enumerate(schema.inputs):
        variables.setdefault(param.variable, []).append((place, param))
    for listed in variables.values():
        legal = {
            type_name.rpartition("tensor(")[2].rstrip(")")
            for type_name in listed[0][1].types
            if "tensor(" in type_name
        }
        classes = {name: legal.intersection(types.split()) for name, types in CLASSES.items()}
        present = {name: types for name, types in classes.items() if types}
        places = tuple(place for place, _ in listed)
        names = "/".join(param.name for _, param in listed)
        for name, types in present.items() if len(present) > 1 else ():
            numbers = frozenset(int(T[type_name.upper()]) for type_name in types)
            yield Aspect(
                f"input {names} is never of {name}",
                partial(_has_type, places, numbers),
                OF_CLASS.get(name, ()),
            )


def _has_type(places: tuple[int, ...], types: frozenset[int], use: Use) -> bool:
    return use.has_type(places, types)


def uses(
    model: ModelProto, schema: Schema, adapters: Registry, *, runs_empty: bool
) -> Iterator[Use]:
    """Yields the nodes of an operator in a model, with the types that inference finds."""
    types = _types(model, adapters)
    parts: list[GraphProto | FunctionProto] = [model.graph, *model.functions]
    for part in parts:
        for container in containers_in(part):
            for node in container.node:
                domain = "" if node.domain == "ai.onnx" else node.domain
                if (domain, node.op_type) == (schema.domain, schema.name):
                    inputs = tuple(types.get(name) if name else None for name in node.input)
                    yield Use(node, inputs, container is not part, runs_empty)


def _types(model: ModelProto, adapters: Registry) -> dict[str, TypeProto]:
    """Returns the types of all values of a graph and of its subgraphs, by name."""
    types: dict[str, TypeProto] = {}
    inferred = safe_inference.infer(model, adapters)
    for graph in containers_in(inferred.graph):
        if isinstance(graph, GraphProto):
            for tensor in graph.initializer:
                types[tensor.name] = helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
            for info in (*graph.value_info, *graph.input, *graph.output):
                types[info.name] = info.type
    return types
