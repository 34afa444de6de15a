# SPDX-License-Identifier: Apache-2.0
"""Models derived from an example: other facts, other types, other attributes, inside a branch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from opshift.model.walk import graphs_in, nodes_in
from opshift.opsets import schemas
from opshift.opsets.schemas import Attribute, Schema
from opshift.protos import AttributeProto, ModelProto, NodeProto, TensorProto, ValueInfoProto
from opshift.protos.whole import helper

CONDITION = "in_the_branch"
UNKNOWN_SIZES = "unknown sizes"
TYPES = {
    "double": TensorProto.DOUBLE,
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
    "int32": TensorProto.INT32,
    "uint8": TensorProto.UINT8,
    "uint64": TensorProto.UINT64,
    "bool": TensorProto.BOOL,
    "string": TensorProto.STRING,
    "complex64": TensorProto.COMPLEX64,
}
UNLIKE_FLOATS = ("of bfloat16", "of uint64", "of bool", "of string", "of complex64")
SIZES_OF, GIVEN = "{}_sizes", "{}_given"
"""The names of two inputs that take the place of one: its sizes, and its elements."""
OF_IR_4 = 9  # the opset that goes with the oldest IR version of an example
RESHAPE = 5  # the opset from which Reshape has a computed shape
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
    model: ModelProto, domain: str, ops: tuple[str, ...],
    wanted: Callable[[str], bool] = lambda name: True,
) -> Iterator[tuple[str, ModelProto]]:  # fmt: skip
    """The variants with their names; the caller checks which of them are legal."""
    ways: dict[str, Callable[[ModelProto], ModelProto]] = {
        "unknown rank": _without_ranks,
        UNKNOWN_SIZES: _without_sizes,
        "in a branch": _in_a_branch,
        **{f"of {name}": partial(_of_type, elem_type) for name, elem_type in TYPES.items()},
    }
    for name, way in ways.items():
        if wanted(name) and _fits(model, name, described=_first(model, domain, ops) is not None):
            yield name, way(model)
    yield from _attributes(model, domain, ops, wanted)


def feeds(values: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of every variant, from those of the example."""
    found = {CONDITION: True, **values}
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            sizes = np.array(value.shape, np.int64)
            found |= {GIVEN.format(name): value, SIZES_OF.format(name): sizes}
    return found


def _fits(model: ModelProto, name: str, *, described: bool) -> bool:
    """Whether the way of this name has what it needs in a model."""
    if name == "in a branch":
        return not model.graph.sparse_initializer
    if name in UNLIKE_FLOATS and not described:  # nobody says which types the operator takes
        return False
    return name != "unknown rank" or all(version >= RESHAPE for version in _opsets(model))


def _opsets(model: ModelProto) -> list[int]:
    """The version of ai.onnx, if the model imports it."""
    return [one.version for one in model.opset_import if one.domain in ("", "ai.onnx")]


def _copy(model: ModelProto) -> ModelProto:
    """A copy without declared types of inner values, that can hold operators of ai.onnx."""
    copy = ModelProto()
    copy.CopyFrom(model)
    del copy.graph.value_info[:]
    if not _opsets(copy):
        copy.opset_import.add(domain="", version=OF_IR_4)
    return copy


def _declared(model: ModelProto) -> Iterator[ValueInfoProto]:
    fed = {tensor.name for tensor in model.graph.initializer}
    yield from (info for info in model.graph.input if info.name not in fed)
    yield from model.graph.output


def _without_ranks(model: ModelProto) -> ModelProto:
    """Reshapes each input to sizes that are known only at run time."""
    copy = _without_sizes(model)
    names = {one.name for one in copy.graph.initializer}
    for info in list(copy.graph.input):
        if info.name in names or not info.type.HasField("tensor_type"):
            continue
        given, sizes = GIVEN.format(info.name), SIZES_OF.format(info.name)
        node = NodeProto(op_type="Reshape", input=[given, sizes], output=[info.name])
        copy.graph.node.insert(0, node)
        info.name = given
        copy.graph.input.append(
            helper.make_tensor_value_info(sizes, TensorProto.INT64, [f"rank_of_{given}"])
        )
    return copy


def _without_sizes(model: ModelProto) -> ModelProto:
    copy = _copy(model)
    for info in _declared(copy):
        for place, dim in enumerate(info.type.tensor_type.shape.dim):
            dim.dim_param = f"{info.name}_{place}"
    return copy


def _in_a_branch(model: ModelProto) -> ModelProto:
    """Puts all nodes into both branches of an If, which capture the inputs."""
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


def _of_type(elem_type: int, model: ModelProto) -> ModelProto:
    """Gives every declared float another type; constants in nodes stay."""
    copy = _copy(model)
    for graph in graphs_in(copy.graph):
        fed = {tensor.name for tensor in graph.initializer}
        for info in (*graph.input, *graph.output):
            kind = info.type
            while kind.HasField("sequence_type"):
                kind = kind.sequence_type.elem_type
            if info.name not in fed and kind.tensor_type.elem_type == TensorProto.FLOAT:
                kind.tensor_type.elem_type = elem_type
    return copy


def _attributes(
    model: ModelProto, domain: str, ops: tuple[str, ...], wanted: Callable[[str], bool]
) -> Iterator[tuple[str, ModelProto]]:
    """The first node with each attribute that it does not give, off its default."""
    found = _first(model, domain, ops)
    if found is None:
        return
    place, node, schema = found
    given = {one.name for one in node.attribute}
    for attribute in schema.attributes.values():
        if attribute.name in given or attribute.is_graph:
            continue
        for value in _values(attribute) if wanted(f"{attribute.name}=") else ():
            copy = _copy(model)
            changed = next(n for i, n in enumerate(nodes_in(copy.graph)) if i == place)
            changed.attribute.append(helper.make_attribute(attribute.name, value))
            yield f"{attribute.name}={value}", copy


def _first(
    model: ModelProto, domain: str, ops: tuple[str, ...]
) -> tuple[int, NodeProto, Schema] | None:
    """The first node of these operators, its place, and its schema; None if there is none."""
    versions = {one.domain: one.version for one in model.opset_import}
    for place, node in enumerate(nodes_in(model.graph)):
        if node.op_type in ops:
            schema = schemas.schema(domain, node.op_type, versions.get(domain, 1))
            return None if schema is None else (place, node, schema)
    return None


def _values(attribute: Attribute) -> tuple[object, ...]:
    default = attribute.default
    if attribute.kind == AttributeProto.FLOAT:
        return (0.375 if not isinstance(default, float) else default / 2 + 0.125,)
    if attribute.kind == AttributeProto.INT:
        return (1 - default,) if default in (0, 1) else (1,)
    if attribute.kind == AttributeProto.STRING:
        return WORDS.get(attribute.name, ())
    return ()
