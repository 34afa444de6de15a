# SPDX-License-Identifier: Apache-2.0
"""Hides nodes with negative output sizes, on which some inference functions of onnx crash.

To find negative sizes, inference first runs without the operators that may crash. A size that
depends on the outputs of operators that may crash stays unknown.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

from opshift.author.attributes import CONSTANT_FORMS
from opshift.author.env import TypesOnly
from opshift.author.model_bytes import ModelBytes
from opshift.author.node import Node, TypePart
from opshift.author.scope_types import by_graph
from opshift.author.traits import DeclaredRules, FatalSizes, Shrinks, answer_of
from opshift.lazy import numpy as np
from opshift.model import imports
from opshift.model.arrays import Array, to_array
from opshift.model.functions import functions_of
from opshift.model.scope import call_id, tensor_type
from opshift.model.walk import containers, nodes, nodes_in
from opshift.opsets import schemas
from opshift.opsets.types import rank_of, tensors_in
from opshift.protos import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    helper,
)

Infer = Callable[[ModelProto], ModelProto]


def may_hold(seen: ModelBytes, adapters: DeclaredRules) -> bool:
    """Returns whether a negative size of one node may crash the inference of another node."""
    if any(seen.operators.isdisjoint(_names(kind, adapters)) for kind in (FatalSizes, Shrinks)):
        return False
    model, nested = ModelProto.FromString(seen.data), not seen.content.is_flat
    fatal, suspects = _fatal(model, adapters), _suspects(model, adapters, nested=nested)
    return next(fatal, None) is not None and next(suspects, None) is not None


def hide(model: ModelProto, domain: str, adapters: DeclaredRules, infer: Infer) -> bool:
    """Moves nodes with a negative size to an unknown domain; returns whether more may exist.

    `infer` is called with a model in which each operator that crashes at negative sizes has this
    unknown domain.
    """
    fatal = list(_fatal(model, adapters))
    suspects = list(_suspects(model, adapters)) if fatal else []
    if not suspects:
        return False
    names = [node.domain for node in fatal]
    for node in fatal:
        node.domain = domain
    sizes = list(_sizes(infer(model)))
    for node, domain_before in zip(fatal, names, strict=True):
        node.domain = domain_before
    unsure = False
    for position, node in suspects:
        sizes_of_node = None if position is None else sizes[position]
        if sizes_of_node is None or any(size is not None and size < 0 for size in sizes_of_node):
            node.domain = domain
        elif None in sizes_of_node:
            unsure = True
    return unsure


def _key(node: NodeProto) -> tuple[str, str]:
    return schemas.normal(node.domain), node.op_type


def _names(kind: type[FatalSizes | Shrinks], adapters: DeclaredRules) -> set[str]:
    """Returns the names of the operators with a declaration of one kind, in all domains."""
    return {op for _, op in adapters.traits(kind)}


def _fatal(model: ModelProto, adapters: DeclaredRules) -> Iterator[NodeProto]:
    """Yields the nodes on which inference crashes if an input has a negative size."""
    names, declared = _names(FatalSizes, adapters), adapters.traits(FatalSizes)
    return (node for node in nodes(model) if node.op_type in names and _key(node) in declared)


def _suspects(
    model: ModelProto, adapters: DeclaredRules, *, nested: bool = True
) -> Iterator[tuple[int | None, NodeProto]]:
    """Yields each node that may have a negative size, with its number in the main graph.

    Without `nested`, the caller guarantees that no node has a subgraph.
    """
    names, declared = _names(Shrinks, adapters), adapters.traits(Shrinks)
    functions, env = functions_of(model), _Constants(model, nested=nested)
    for body, versions in imports.bodies(model):
        for position, node in enumerate(nodes_in(body) if nested else body.node):
            if node.op_type not in names or (key := _key(node)) not in declared:
                continue
            if call_id(node) in functions:
                continue
            checked = Node(node, schemas.schema(*key, versions.get(key[0], 0)), env)
            excluded = (answer_of(rule.excluded, checked) for rule in declared[key])
            if checked.schema is not None and not all(excluded):
                yield position if isinstance(body, GraphProto) else None, node


class _Constants(TypesOnly):
    """The constants of a model that no node computes; one name may mean several constants."""

    def __init__(self, model: ModelProto, *, nested: bool) -> None:
        super().__init__({}, self._value)
        self.containers = containers(model) if nested else iter((model.graph,))

    @functools.cached_property
    def held(self) -> dict[str, list[TensorProto | AttributeProto]]:
        """Returns the constants by name, collected when a node first needs a constant."""
        constants: dict[str, list[TensorProto | AttributeProto]] = {}
        for container in self.containers:
            for tensor in container.initializer if isinstance(container, GraphProto) else ():
                constants.setdefault(tensor.name, []).append(tensor)
            for node in container.node:
                if node.op_type == "Constant" and _key(node)[0] == "" and node.attribute:
                    for name in node.output[:1]:
                        constants.setdefault(name, []).append(node.attribute[0])
        return constants

    def type(self, name: str, part: TypePart = TypePart.ALL) -> TypeProto | None:
        """Returns the type of an initializer whose name no other constant has."""
        match self.held.get(name):
            case [TensorProto() as alone]:
                return tensor_type(alone)
        return None

    def _value(self, name: str) -> Array | None:
        """Returns a constant, or the numbers of all constants with this name."""
        values = [_array(tensor) for tensor in self.held.get(name, ())]
        if len(values) < 2:
            return values[0] if values else None
        return np.concatenate([value.reshape(-1) for value in values])


def _array(constant: TensorProto | AttributeProto) -> Array:
    if isinstance(constant, TensorProto):
        return to_array(constant)
    if constant.HasField("t"):
        return to_array(constant.t)
    kind = CONSTANT_FORMS.get(constant.name)
    return np.array(helper.get_attribute_value(constant) if kind is not None else [], dtype=kind)


def _sizes(model: ModelProto) -> Iterator[list[int | None]]:
    """Yields the output sizes of each node of the graph, in order; None for an unknown size."""
    for scope in by_graph(model):
        for node in scope.graph.node:
            kinds = [scope.own.get(name) for name in node.output if name]
            yield [size for kind in kinds for size in _sizes_of(kind)]


def _sizes_of(kind: TypeProto | None) -> Iterator[int | None]:
    if kind is None or (kind.HasField("tensor_type") and rank_of(kind) is None):
        yield None
        return
    for tensor in tensors_in(kind):
        for dim in tensor.shape.dim:
            yield dim.dim_value if dim.HasField("dim_value") else None
