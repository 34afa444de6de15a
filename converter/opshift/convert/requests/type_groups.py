# SPDX-License-Identifier: Apache-2.0
"""Groups the inputs and outputs of a node that must have one element type by its schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any

from opshift.author.present_types import TYPE_ATTRIBUTES
from opshift.lazy import numpy as np
from opshift.model.names import Owned
from opshift.model.scope import Place, Scope
from opshift.model.walk import holds_graphs
from opshift.opsets import schemas
from opshift.opsets.elements import ELEMENTS, T
from opshift.opsets.schemas import Param, Schema
from opshift.opsets.type_pairs import BY_NAMES, Change
from opshift.protos import AttributeProto, NodeProto
from opshift.records import dataclass

# Attributes that name the type of an inner sum, which is not the type of an output.
INNER = frozenset({"stash_type", "softmax_precision", "precision"})

NUMBERS = {  # attributes of Constant with numbers, and the element type of the constant
    "value_float": T.FLOAT, "value_floats": T.FLOAT, "value_int": T.INT64, "value_ints": T.INT64,
}  # fmt: skip


@dataclass(slots=True)
class TypeGroup:
    """Inputs and outputs of a node that change their element type together or not at all."""

    start: int
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    reason: str = ""  # why the group keeps its type
    by_attribute: str = ""  # the attribute that determines the type of the outputs
    by_value: bool = False  # whether a tensor in an attribute determines the type

    @property
    def stays(self) -> bool:
        return bool(self.reason)


def groups_of(
    node: NodeProto,
    schema: Schema | None,
    kind: Callable[[str], int],
    text: Callable[[str, int], str],
    types: Mapping[int, int],
    is_call: bool,
    *,
    saturates: bool,
) -> list[TypeGroup]:
    """Returns the groups of a node whose type a request changes.

    `kind` returns the element type of a value. `text` returns the type of a value as a string, but
    with a given element type.
    """
    groups_by_type: dict[tuple[object, int], TypeGroup] = {}
    contained = set[int]()  # element types of sequences and optionals
    for name, at, is_output in _ends(node):
        start = kind(name)
        if start not in types:
            continue
        param = _param(schema, at, is_output)
        group = groups_by_type.setdefault((_key(param, at, is_output), start), TypeGroup(start))
        (group.outputs if is_output else group.inputs).append(at)
        if not text(name, start).startswith("tensor"):
            contained.add(start)
        if is_call or holds_graphs(node) or group.reason:
            continue
        if param is None:
            group.reason = f"no schema describes {node.op_type}"
        elif text(name, types[start]) not in param.types:
            group.reason = f"{node.op_type} does not support {text(name, types[start])}"
    groups = list(groups_by_type.values())
    if not is_call and not holds_graphs(node):
        for start in contained:
            groups = _joined(groups, start)
    if schema is not None and not is_call:
        groups = _led(node, schema, groups)
    _join_by_tensors(node, groups)
    for group in groups:
        if group.by_attribute and ELEMENTS[group.start].bits < 8 and not saturates:
            group.reason = f"{node.op_type} drops the bits beyond {named_type(group.start)}"
    return groups


def _ends(node: NodeProto) -> Iterator[tuple[str, int, bool]]:
    for at, name in enumerate(node.input):
        if name:
            yield name, at, False
    for at, name in enumerate(node.output):
        if name:
            yield name, at, True


def _param(schema: Schema | None, at: int, is_output: bool) -> Param | None:
    if schema is None:
        return None
    return schema.output_at(at) if is_output else schema.input_at(at)


def _key(param: Param | None, at: int, is_output: bool) -> object:
    if param is None:
        return "unknown"
    return param.variable if param.homogeneous else (param.variable, at, is_output)


def _joined(groups: list[TypeGroup], start: int) -> list[TypeGroup]:
    """Returns the groups of a node after merging those with the element type `start`."""
    mine = [group for group in groups if group.start == start and group.inputs]
    for later in mine[1:]:
        mine[0].inputs += later.inputs
        mine[0].outputs += later.outputs
        mine[0].reason = mine[0].reason or later.reason
    return [group for group in groups if group not in mine[1:]]


def _led(node: NodeProto, schema: Schema, groups: list[TypeGroup]) -> list[TypeGroup]:
    """Joins outputs whose type no input determines with the inputs that have the same type."""
    leading = [group for group in groups if group.inputs or group.stays or holds_graphs(node)]
    for group in groups:
        if group in leading:
            continue
        leaders = [other for other in leading if other.start == group.start and other.inputs]
        names = [name for name in schema.attributes if name in TYPE_ATTRIBUTES - INNER]
        written = [
            attribute.name
            for attribute in node.attribute
            if attribute.name in names and (attribute.i or attribute.s)
        ]
        default = any(schema.attributes[name].default for name in names)
        if written or (names and default):
            group.by_attribute = (written or names)[0]
        elif leaders:
            leaders[0].outputs += group.outputs
            continue
        elif names:  # the attribute is absent, and its default is float
            group.by_attribute = names[0]
        elif _holds_value(schema):
            group.by_value = True
        else:
            group.reason = f"the output type of {node.op_type} is unknown"
        leading.append(group)
    return leading


def _join_by_tensors(node: NodeProto, groups: list[TypeGroup]) -> None:
    """Keeps the type of all values that share it with a tensor attribute if one value keeps it."""
    for start in {attribute.t.data_type for attribute in node.attribute if attribute.HasField("t")}:
        mine = [group for group in groups if group.start == start]
        why = next((group.reason for group in mine if group.stays), "")
        for group in mine:
            group.reason = group.reason or why


def _holds_value(schema: Schema) -> bool:
    """Returns whether a tensor in an attribute determines the type of the output."""
    kinds = (AttributeProto.TENSOR, AttributeProto.SPARSE_TENSOR, AttributeProto.TYPE_PROTO)
    return any(attribute.kind in kinds for attribute in schema.attributes.values())


def numbers_in(attribute: AttributeProto) -> Any:
    """Returns the numbers of a Constant's attribute, such as `value_floats`, as an array."""
    listed = attribute.name.endswith("s")
    floats = attribute.floats if listed else attribute.f
    integers = attribute.ints if listed else attribute.i
    return np.array(floats if NUMBERS[attribute.name] == T.FLOAT else integers)


def named_type(number: int) -> str:
    """Returns an element type in the spelling of schemas."""
    return schemas.element_name(number) or str(number)


# -- the decisions of a request --------------------------------------------------------------------


@dataclass(slots=True)
class TypeChoice:
    """The values whose type a request may change, the groups of each node, and the decisions."""

    types: Mapping[int, int]
    kinds: dict[Owned, int] = field(default_factory=dict)
    groups: dict[Place, list[TypeGroup]] = field(default_factory=dict)
    # values that keep their type, with the reason
    stays: dict[Owned, str] = field(default_factory=dict)
    # graph inputs and outputs that change although inner nodes do not
    narrow_ends: set[Owned] = field(default_factory=set)
    solid: set[Owned] = field(default_factory=set)  # containers, which Cast does not accept
    not_run: str = ""  # why the test run gave no result
    small: list[Owned] = field(default_factory=list)  # constants with numbers that lose digits

    def changes(self, owner: Scope | None, name: str) -> bool:
        """Returns whether a value gets another element type."""
        return (owner, name) in self.kinds and (owner, name) not in self.stays

    def values(self, place: Place, group: TypeGroup) -> list[Owned]:
        """Returns the values in a group of inputs and outputs of one node."""
        scope, position = place
        node = scope.node(position)
        return [(scope.owner(name), name) for name in _names(group, node)]


def _names(group: TypeGroup, node: NodeProto) -> list[str]:
    read, written = list(node.input), list(node.output)
    return [*(read[at] for at in group.inputs), *(written[at] for at in group.outputs)]


def changes_of(types: Mapping[int, int]) -> dict[int, Change]:
    """Returns, for each change of an element type, its effect on numbers."""
    changes = {}
    for start, to in types.items():
        pair = BY_NAMES.get((named_type(start), named_type(to)))
        assert pair is not None  # the request has only such pairs
        changes[start] = pair.change
    return changes
