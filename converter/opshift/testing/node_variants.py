# SPDX-License-Identifier: Apache-2.0
"""Derives models in which one node has one more attribute, optional input or output."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from opshift.model.walk import nodes_in
from opshift.opsets import schemas
from opshift.opsets.elements import T
from opshift.opsets.schemas import Attribute, Param, Schema
from opshift.opsets.types import dims_of
from opshift.protos import AttributeProto, ModelProto, NodeProto, TensorProto
from opshift.protos.whole import helper
from opshift.records import dataclass

WORDS = {
    "auto_pad": ("SAME_UPPER", "VALID"),
    "direction": ("reverse", "bidirectional"),
    "mode": ("reflect", "edge", "linear", "cubic"),
    "nearest_mode": ("floor", "ceil"),
    "post_transform": ("LOGISTIC", "SOFTMAX"),
    "aggregate_function": ("AVERAGE", "MAX"),
}
"""Values for string attributes; a value that the checker rejects gives no variant."""
LENGTHS = (1, 2, 3, 4, 5, 6)
"""The lengths that are tried for attributes that are lists."""
COMMON = ("float", "int64", "int32", "bool", "string")
"""The element types that are tried for an input that shares its type with no other input."""

Edit = Callable[[ModelProto], None]


@dataclass(frozen=True, slots=True)
class SubjectNode:
    """The node that the variants change, with its position among all nodes of the model."""

    place: int
    node: NodeProto
    schema: Schema

    def of(self, model: ModelProto) -> NodeProto:
        """Returns the node at the same position in a copy of the model."""
        return next(node for i, node in enumerate(nodes_in(model.graph)) if i == self.place)


def subject(model: ModelProto, domain: str, ops: tuple[str, ...]) -> SubjectNode | None:
    """Returns the first node of these operators; None if it does not exist or has no schema."""
    versions = {entry.domain: entry.version for entry in model.opset_import}
    for place, node in enumerate(nodes_in(model.graph)):
        if node.op_type in ops:
            schema = schemas.schema(domain, node.op_type, versions.get(domain, 1))
            return None if schema is None else SubjectNode(place, node, schema)
    return None


def node_variants(
    model: ModelProto, target: SubjectNode, is_wanted: Callable[[str], bool]
) -> Iterator[tuple[str, ModelProto]]:
    """Yields a model for each edit; if edits share a name, callers use the first legal model."""
    for name, edit in edits(model, target):
        if is_wanted(name):
            copy = ModelProto()
            copy.CopyFrom(model)
            edit(copy)
            yield name, copy


def completed(
    model: ModelProto, target: SubjectNode, is_legal: Callable[[ModelProto], bool]
) -> ModelProto:
    """Returns a model whose node has every attribute, and every optional input and output."""
    whole, done = model, set[str]()
    for name, edit in edits(model, target):
        part = name.partition("=")[0]
        if part in done:
            continue
        copy = ModelProto()
        copy.CopyFrom(whole)
        edit(copy)
        if is_legal(copy):
            whole = copy
            done.add(part)
    return whole


def edits(model: ModelProto, target: SubjectNode) -> Iterator[tuple[str, Edit]]:
    """Yields edits that add a part to the node; edits that try the same part share a name."""
    present = {attribute_proto.name for attribute_proto in target.node.attribute}
    for attribute in target.schema.attributes.values():
        if attribute.name not in present and not attribute.is_graph:
            for shown, value in _values(attribute):
                yield f"{attribute.name}={shown}", partial(_write, target, attribute.name, value)
    for place, param in enumerate(target.schema.inputs):
        if param.optional and not _at(target.node.input, place):
            for forms in _forms(model, target, param):
                for how in ("input", "constant"):
                    yield f"{param.name} as {how}", partial(_give, target, place, how, *forms)
    if target.node in model.graph.node:
        for place, param in enumerate(target.schema.outputs):
            if not param.variadic and not _at(target.node.output, place):
                yield f"{param.name} read", partial(_read, target, place)


def _at(names: Sequence[str], place: int) -> str:
    return names[place] if place < len(names) else ""


# -- attributes ----------------------------------------------------------------------------------


def _values(attribute: Attribute) -> Iterator[tuple[str, object]]:
    """Yields values other than the default, then the default, each with its text."""
    default = attribute.default
    off: tuple[object, ...] = ()
    match attribute.kind:
        case AttributeProto.FLOAT:
            off = (0.375 if not isinstance(default, float) else default / 2 + 0.125,)
        case AttributeProto.INT:
            off = (1 - default,) if default in (0, 1) else (1,)
        case AttributeProto.STRING:
            off = WORDS.get(attribute.name, ())
        case AttributeProto.INTS:
            yield from (("[1, ..]", [1] * length) for length in LENGTHS)
            yield from (("[0, ..]", [0] * length) for length in LENGTHS)
        case AttributeProto.FLOATS:
            yield from (("[0.375, ..]", [0.375] * length) for length in LENGTHS)
        case AttributeProto.STRINGS:
            yield from (("[Tanh, ..]", ["Tanh"] * length) for length in LENGTHS)
        case AttributeProto.TENSOR:
            yield "a float", helper.make_tensor("", TensorProto.FLOAT, [1], [0.375])
            yield "an integer", helper.make_tensor("", TensorProto.INT64, [1], [1])
    yield from ((str(value), value) for value in off)
    if default is not None and attribute.kind != AttributeProto.TENSOR:
        yield "default", default


def _write(target: SubjectNode, name: str, value: object, model: ModelProto) -> None:
    target.of(model).attribute.append(helper.make_attribute(name, value))


# -- inputs and outputs --------------------------------------------------------------------------


def _forms(
    model: ModelProto, target: SubjectNode, param: Param
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yields element types and shapes that the input may have."""
    shapes: dict[tuple[int, ...], None] = dict.fromkeys(((), (1,)))
    for info in model.graph.input:
        dims = tuple(size if isinstance(size, int) else 2 for size in dims_of(info.type))
        shapes |= dict.fromkeys((dims, dims[-1:], dims[1:2], dims[:1]))
    for elem_type in _types(model, target, param):
        for shape in shapes:
            yield elem_type, shape


def _types(model: ModelProto, target: SubjectNode, param: Param) -> list[int]:
    """Returns the type of another input with the same type variable, or common types."""
    types = {info.name: info.type.tensor_type.elem_type for info in model.graph.input}
    types |= {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    shared = [
        types[name]
        for place, name in enumerate(target.node.input)
        if name in types
        if (other := target.schema.input_at(place)) and other.variable == param.variable
    ]
    legal = [int(T[name.upper()]) for name in COMMON if f"tensor({name})" in param.types]
    return shared[:1] or legal[:2]


def _give(
    target: SubjectNode, place: int, how: str, elem_type: int, shape: tuple[int, ...],
    model: ModelProto,
) -> None:  # fmt: skip
    name, node = f"more_{place}", target.of(model)
    node.input.extend([""] * (place + 1 - len(node.input)))
    node.input[place] = name
    info = helper.make_tensor_value_info(name, elem_type, shape)
    if how == "input" or elem_type == TensorProto.STRING:
        model.graph.input.append(info)
        return
    count = 1
    for size in shape:
        count *= size
    model.graph.initializer.append(helper.make_tensor(name, elem_type, shape, [1] * count))
    if model.ir_version < 4:
        model.graph.input.append(info)


def _read(target: SubjectNode, place: int, model: ModelProto) -> None:
    """Adds a Size node that reads an output, because Size accepts every type."""
    name, node = f"more_output_{place}", target.of(model)
    node.output.extend([""] * (place + 1 - len(node.output)))
    node.output[place] = name
    model.graph.node.add(op_type="Size", input=[name], output=[f"{name}_size"])
    model.graph.output.append(helper.make_tensor_value_info(f"{name}_size", TensorProto.INT64, []))
