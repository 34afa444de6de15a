# SPDX-License-Identifier: Apache-2.0
"""Models derived from an example: other facts, other types, other attributes, inside a branch."""

from __future__ import annotations

from collections.abc import Iterator

from opshift.model.walk import nodes_in
from opshift.opsets import schemas
from opshift.opsets.schemas import Attribute
from opshift.protos import AttributeProto, ModelProto, NodeProto, TensorProto, ValueInfoProto
from opshift.protos.whole import helper

CONDITION = "in_the_branch"
TYPES = {
    "double": TensorProto.DOUBLE,
    "float16": TensorProto.FLOAT16,
    "int32": TensorProto.INT32,
    "uint8": TensorProto.UINT8,
}
WORDS = {
    "auto_pad": ("SAME_UPPER", "VALID"),
    "direction": ("reverse", "bidirectional"),
    "mode": ("reflect", "edge", "linear", "cubic"),
    "nearest_mode": ("floor", "ceil"),
    "post_transform": ("LOGISTIC", "SOFTMAX"),
    "aggregate_function": ("AVERAGE", "MAX"),
}
"""Values of attributes that are words; one that the checker does not take is no variant."""


def variants(
    model: ModelProto, domain: str, ops: tuple[str, ...]
) -> Iterator[tuple[str, ModelProto]]:
    """Each variant with its name; the caller asks the checker which of them are legal."""
    yield "unknown rank", _without_shapes(model)
    yield "unknown sizes", _without_sizes(model)
    if not model.graph.sparse_initializer:
        yield "in a branch", _in_a_branch(model)
    for name, elem_type in TYPES.items():
        yield f"of {name}", _of_type(model, elem_type)
    yield from attributes(model, domain, ops)


def _copy(model: ModelProto) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(model)
    del copy.graph.value_info[:]
    return copy


def _declared(model: ModelProto) -> Iterator[ValueInfoProto]:
    fed = {tensor.name for tensor in model.graph.initializer}
    yield from (info for info in model.graph.input if info.name not in fed)
    yield from model.graph.output


def _without_shapes(model: ModelProto) -> ModelProto:
    copy = _copy(model)
    for info in _declared(copy):
        if info.type.HasField("tensor_type"):
            info.type.tensor_type.ClearField("shape")
    return copy


def _without_sizes(model: ModelProto) -> ModelProto:
    copy = _copy(model)
    for info in _declared(copy):
        for place, dim in enumerate(info.type.tensor_type.shape.dim):
            dim.dim_param = f"{info.name}_{place}"
    return copy


def _in_a_branch(model: ModelProto) -> ModelProto:
    """All nodes in both branches of an If, which see the inputs from outside."""
    copy = _copy(model)
    branches = []
    for name in ("then_branch", "else_branch"):
        graph = helper.make_graph(list(model.graph.node), name, [], list(model.graph.output))
        branches.append(AttributeProto(name=name, type=AttributeProto.GRAPH, g=graph))
    del copy.graph.node[:]
    for branch in branches:
        for info in branch.g.output:
            _rename_output(branch, info, f"{info.name}_{branch.name}")
    copy.graph.node.append(
        NodeProto(
            op_type="If", input=[CONDITION], output=[one.name for one in model.graph.output],
            attribute=branches,
        )
    )  # fmt: skip
    copy.graph.input.append(helper.make_tensor_value_info(CONDITION, TensorProto.BOOL, []))
    return copy


def _rename_output(branch: AttributeProto, info: ValueInfoProto, name: str) -> None:
    branch.g.node.append(NodeProto(op_type="Identity", input=[info.name], output=[name]))
    info.name = name


def _of_type(model: ModelProto, elem_type: int) -> ModelProto:
    """Every float that the graph declares is of another type; constants in nodes stay."""
    copy = _copy(model)
    for info in _declared(copy):
        if info.type.tensor_type.elem_type == TensorProto.FLOAT:
            info.type.tensor_type.elem_type = elem_type
    return copy


def attributes(
    model: ModelProto, domain: str, ops: tuple[str, ...]
) -> Iterator[tuple[str, ModelProto]]:
    """The first node with each attribute that it does not give, off its default."""
    versions = {one.domain: one.version for one in model.opset_import}
    place, node = next(
        ((i, n) for i, n in enumerate(nodes_in(model.graph)) if n.op_type in ops), (0, None)
    )
    schema = schemas.schema(domain, node.op_type, versions.get(domain, 1)) if node else None
    if node is None or schema is None:
        return
    given = {one.name for one in node.attribute}
    for attribute in schema.attributes.values():
        if attribute.name in given or attribute.is_graph:
            continue
        for value in _values(attribute):
            copy = _copy(model)
            changed = next(n for i, n in enumerate(nodes_in(copy.graph)) if i == place)
            changed.attribute.append(helper.make_attribute(attribute.name, value))
            yield f"{attribute.name}={value}", copy


def _values(attribute: Attribute) -> tuple[object, ...]:
    default = attribute.default
    if attribute.kind == AttributeProto.FLOAT:
        return (0.375 if not isinstance(default, float) else default / 2 + 0.125,)
    if attribute.kind == AttributeProto.INT:
        return (1 - default,) if default in (0, 1) else (1,)
    if attribute.kind == AttributeProto.STRING:
        return WORDS.get(attribute.name, ())
    return ()
