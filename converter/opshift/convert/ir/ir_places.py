"""Where the content is that needs an IR version: the first place of each kind, for a refusal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from google.protobuf.message import Message
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
)

from opshift.author.present_types import TYPE_ATTRIBUTES, element_types
from opshift.convert.ir.needs import Need
from opshift.model import walk
from opshift.opsets.elements import T


def sentence(model: ModelProto, need: Need) -> str:
    """What is in the way, where it is first met, and what to do about it."""
    place = next(_places(model, need), "")
    return f"{need.reason} needs IR {need.ir}{place and f' ({place})'}; {need.way_out}"


def _places(model: ModelProto, need: Need) -> Iterator[str]:
    reason = need.reason
    if reason.startswith("element type or container"):
        yield from _of_type(model, reason.split()[-1])
    elif "function" in reason:
        yield from (f"function {one.name!r}" for one in model.functions if _is_it(one, reason))
    elif reason == "metadata of a node":
        yield from _named(walk.nodes(model), "metadata_props")
    elif reason == "a device configuration":
        yield from _named(walk.nodes(model), "device_configurations")
    elif reason == "external data":
        yield from (f"tensor {one.name!r}" for one in walk.tensors(model) if one.external_data)
    elif "in an attribute" in reason:
        yield from _of_attribute(model, sparse="sparse" in reason)
    else:
        for graph in _graphs(model):
            yield from _of_graph(graph, reason)


_FUNCTION_FIELDS = {
    "a function attribute with a default": "attribute_proto",
    "a function overload": "overload",
    "types recorded in a function": "value_info",
    "metadata of a function": "metadata_props",
}


def _is_it(function: Message, reason: str) -> bool:
    name = _FUNCTION_FIELDS.get(reason)
    return name is None or bool(getattr(function, name, None))


def _graphs(model: ModelProto) -> Iterator[GraphProto]:
    return (one for one in walk.containers(model) if isinstance(one, GraphProto))


def _of_graph(graph: GraphProto, reason: str) -> Iterator[str]:
    if reason == "a sparse initializer":
        yield from (f"initializer {one.values.name!r}" for one in graph.sparse_initializer)
    elif reason == "a quantization annotation":
        yield from (f"of {one.tensor_name!r}" for one in graph.quantization_annotation)
    elif reason == "metadata of a graph, value or tensor":
        values = (*graph.input, *graph.output, *graph.value_info)
        held: list[GraphProto | ValueInfoProto | TensorProto]
        held = [graph, *values, *graph.initializer]
        yield from (f"of {one.name!r}" for one in held if getattr(one, "metadata_props", None))


def _named(nodes: Iterable[NodeProto], field: str) -> Iterator[str]:
    return (_node(node) for node in nodes if getattr(node, field, None))


def _node(node: NodeProto) -> str:
    return f"{node.op_type} {node.name or next((o for o in node.output if o), '')!r}"


def _of_attribute(model: ModelProto, *, sparse: bool) -> Iterator[str]:
    types = (AttributeProto.TYPE_PROTO, AttributeProto.TYPE_PROTOS)
    tensors = (AttributeProto.SPARSE_TENSOR, AttributeProto.SPARSE_TENSORS)
    for node in walk.nodes(model):
        if any(one.type in (tensors if sparse else types) for one in node.attribute):
            yield _node(node)


def _of_type(model: ModelProto, name: str) -> Iterator[str]:
    number = T[name.upper()] if name.upper() in T.__members__ else None
    for graph in _graphs(model):
        for value in (*graph.input, *graph.output, *graph.value_info):
            if name in element_types(value.type):
                yield f"value {value.name!r}"
        yield from (f"initializer {t.name!r}" for t in graph.initializer if t.data_type == number)
    for node in walk.nodes(model):
        for attribute in node.attribute:
            asked = attribute.i if attribute.name in TYPE_ATTRIBUTES else attribute.t.data_type
            if asked == number or name in element_types(attribute.tp):
                yield _node(node)
