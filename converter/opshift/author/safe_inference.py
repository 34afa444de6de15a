# SPDX-License-Identifier: Apache-2.0
"""Type inference without crashes: for some operators onnx ends the process on unknown types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from opshift.author.scope_types import by_graph, by_name
from opshift.author.traits import Fragile
from opshift.model.walk import graphs_in, nodes, nodes_in
from opshift.opsets import schemas
from opshift.protos import ModelProto, onnx_checker, shape_inference

if TYPE_CHECKING:
    from opshift.author.registry import Registry

# What onnx's inference raises: an IndexError is what becomes of one beyond the end of a vector, a
# DecodeError of types that it writes into a model nested as deeply as protobuf reads.
COMPLAINTS = (
    shape_inference.InferenceError,
    onnx_checker.ValidationError,
    RuntimeError,
    ValueError,
    IndexError,
    DecodeError,
)
MOST_PROPAGATED = 2**24  # elements of a dimension
NOBODY = "opshift.unknown"  # a domain of which inference knows nothing


def infer(
    model: bytes | ModelProto,
    adapters: Registry,
    *,
    strict: bool = False,
    data_prop: bool = False,
) -> ModelProto:
    """The result of onnx's inference, with the nodes hidden that would end the process."""
    known = _survivable(model, adapters)
    data_prop = data_prop and not (isinstance(known, ModelProto) and _has_a_huge_input(known))
    found = shape_inference.infer_shapes(
        known, check_type=strict, strict_mode=strict, data_prop=data_prop
    )
    if known is not model:
        _give_back(found, model)
    return found


def _has_a_huge_input(model: ModelProto) -> bool:
    """Whether data propagation would make a list as long as a huge input dimension."""
    dims = (dim for value in model.graph.input for dim in value.type.tensor_type.shape.dim)
    return any(dim.dim_value > MOST_PROPAGATED for dim in dims)


def _give_back(found: ModelProto, model: bytes | ModelProto) -> None:
    """Gives the hidden nodes their domains back."""
    original = model if isinstance(model, ModelProto) else ModelProto.FromString(model)
    for node, own in zip(nodes(found), nodes(original), strict=True):
        if node.domain == NOBODY:
            node.domain = own.domain
    for imports in (found.opset_import, *(one.opset_import for one in found.functions)):
        imports.remove(next(one for one in imports if one.domain == NOBODY))


def is_at_risk(model: bytes | ModelProto, adapters: Registry) -> bool:
    """Whether the bytes of the model contain the name of an operator that may end the process."""
    data = model if isinstance(model, bytes) else model.SerializeToString()
    return any(op.encode() in data for _, op in adapters.traits(Fragile))


def _survivable(model: bytes | ModelProto, adapters: Registry) -> bytes | ModelProto:
    """The model, or a copy in which such nodes without typed inputs have an unknown domain."""
    if not is_at_risk(model, adapters):
        return model
    copy = ModelProto()
    copy.MergeFromString(model if isinstance(model, bytes) else model.SerializeToString())
    fragile = adapters.traits(Fragile)
    made: dict[str, int] = {}  # the position of the node that makes a value
    held = []
    for position, node in enumerate(nodes_in(copy.graph)):
        made |= dict.fromkeys(node.output, position)
        if (schemas.normal(node.domain), node.op_type) in fragile:
            held.append((position, node, node.domain))
    copy.opset_import.add(domain=NOBODY, version=1)
    for function in copy.functions:
        function.opset_import.add(domain=NOBODY, version=1)
    for node in nodes(copy):  # in functions too, where a call may leave out any input
        if (schemas.normal(node.domain), node.op_type) in fragile:
            node.domain = NOBODY
    typed = _typed(copy)
    for position, node, domain in held:
        # Between two steps, the new nodes of a graph are at its end.
        if node.input and all(
            name in typed and made.get(name, -1) < position for name in node.input
        ):
            node.domain = domain
    return copy


def _typed(model: ModelProto) -> set[str]:
    """The names of the graph, not of functions, whose type inference finds."""
    try:
        model = shape_inference.infer_shapes(model)
    except COMPLAINTS:
        return set()
    types = by_name(by_graph(model))
    tensors = (tensor for graph in graphs_in(model.graph) for tensor in graph.initializer)
    known = {name for name, kind in types.items() if kind is not None and kind.WhichOneof("value")}
    return known.union(tensor.name for tensor in tensors if tensor.name not in types)
