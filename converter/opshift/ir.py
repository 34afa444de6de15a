"""The IR version a model should carry: what its release pairs with, and what its content needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from onnx import AttributeProto, FunctionProto, NodeProto, TensorProto

from opshift import versions
from opshift.errors import BadTarget
from opshift.facts import Facts
from opshift.scope import Document

NEWEST = versions.RELEASES[-1].ir
TYPES = {
    "bfloat16": 4,
    "float8e4m3fn": 9,
    "float8e4m3fnuz": 9,
    "float8e5m2": 9,
    "float8e5m2fnuz": 9,
    "uint4": 10,
    "int4": 10,
    "float4e2m1": 11,
    "float8e8m0": 12,
    "uint2": 13,
    "int2": 13,
    "float6e2m3": 14,
    "float6e3m2": 14,
    "seq": 6,
    "map": 6,
    "optional": 8,
    "sparse_tensor": 8,
}


@dataclass(frozen=True, slots=True)
class Need:
    """A piece of content that an older IR version does not have."""

    ir: int
    reason: str

    @property
    def sentence(self) -> str:
        return f"{self.reason} needs IR {self.ir}" + (
            "; drop it with drop_metadata (--drop-metadata)" if self.droppable else ""
        )

    @property
    def droppable(self) -> bool:
        """Whether it may be dropped by request, because no result depends on it."""
        words = ("metadata", "a device configuration", "a quantization", "types recorded")
        return self.reason.startswith(words)


def aim(current: int, imports: Mapping[str, int], wanted: str | int, went_down: bool) -> int:
    """The IR version to go for, whatever the content needs."""
    if wanted == "keep":
        return current
    if wanted == "auto":
        paired = versions.ir_for(imports)
        return min(current, paired) if went_down else max(current, paired)
    return int(wanted)


def holding(document: Document, facts: Facts, aimed: int) -> list[Need]:
    """What keeps the content of a model above the IR version that is aimed at."""
    if aimed >= document.model.ir_version and (aimed >= 4 or not document.added_initializers):
        return []
    return [need for need in needs(document, facts) if need.ir > aimed]


def check_wanted(wanted: str | int) -> None:
    """Refuses an IR version that nobody can mean."""
    if wanted in ("auto", "keep"):
        return
    if isinstance(wanted, bool) or not isinstance(wanted, int) or not 3 <= wanted <= NEWEST:
        raise BadTarget(f"ir_version is 'auto', 'keep' or a number from 3 to {NEWEST}: {wanted!r}")


def needs(document: Document, facts: Facts) -> list[Need]:
    """Everything in a model that ties it to an IR version above 3, one line for each kind."""
    found: dict[str, Need] = {}
    for need in (*_of_types(facts), *_of_model(document), *_of_graphs(document)):
        found.setdefault(need.reason, need)
    return sorted(found.values(), key=lambda need: (-need.ir, need.reason))


def _of_types(facts: Facts) -> Iterator[Need]:
    for name in sorted(facts.census & TYPES.keys()):
        yield Need(TYPES[name], f"element type or container {name}")


def _of_model(document: Document) -> Iterator[Need]:
    model = document.model
    if model.functions:
        yield Need(8, "a model-local function")
    if model.training_info:
        yield Need(7, "training information")
    if _filled(model, "configuration"):
        yield Need(11, "a device configuration")
    for function in model.functions:
        yield from _of_function(function)


def _of_function(function: FunctionProto) -> Iterator[Need]:
    if _filled(function, "attribute_proto"):
        yield Need(9, "a function attribute with a default")
    if _filled(function, "overload"):
        yield Need(10, "a function overload")
    if _filled(function, "value_info"):
        yield Need(10, "types recorded in a function")
    if _filled(function, "metadata_props"):
        yield Need(10, "metadata of a function")


def _of_graphs(document: Document) -> Iterator[Need]:
    for root in document.roots:
        for scope in root.scopes:
            yield from (need for node in scope.proto.node for need in _of_node(node))
            if isinstance(scope.proto, FunctionProto):
                continue
            graph = scope.proto
            if any(name not in scope.inputs for name in scope.initializers):
                yield Need(4, "an initializer that is not a graph input")
            if graph.sparse_initializer:
                yield Need(6, "a sparse initializer")
            if graph.quantization_annotation:
                yield Need(5, "a quantization annotation")
            if any(t.data_location == TensorProto.EXTERNAL for t in graph.initializer):
                yield Need(4, "external data")
            notes = (graph, *graph.input, *graph.output, *graph.value_info, *graph.initializer)
            if any(_filled(proto, "metadata_props") for proto in notes):
                yield Need(10, "metadata of a graph, value or tensor")


_ATTRIBUTES = {
    AttributeProto.SPARSE_TENSOR: Need(6, "a sparse tensor in an attribute"),
    AttributeProto.SPARSE_TENSORS: Need(6, "a sparse tensor in an attribute"),
    AttributeProto.TYPE_PROTO: Need(8, "a type in an attribute"),
    AttributeProto.TYPE_PROTOS: Need(8, "a type in an attribute"),
}


def _of_node(node: NodeProto) -> Iterator[Need]:
    for attribute in node.attribute:
        kind = attribute.type
        if kind in _ATTRIBUTES:
            yield _ATTRIBUTES[kind]
        elif kind == AttributeProto.TENSOR:
            if attribute.t.data_location == TensorProto.EXTERNAL:
                yield Need(4, "external data")
            if _filled(attribute.t, "metadata_props"):
                yield Need(10, "metadata of a graph, value or tensor")
    if _filled(node, "metadata_props"):
        yield Need(10, "metadata of a node")
    if _filled(node, "overload"):
        yield Need(10, "a function overload")
    if _filled(node, "device_configurations"):
        yield Need(11, "a device configuration")


def _filled(proto: object, field: str) -> bool:
    return bool(getattr(proto, field, None))
