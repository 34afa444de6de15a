# SPDX-License-Identifier: Apache-2.0
"""Negative sizes that onnx's inference finds: some of its operators end the process at one.

The nodes that give a negative size are hidden, as far as one inference without those operators
shows it. A size that depends on their results stays unknown before.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from opshift.author.attributes import CONSTANT_FORMS
from opshift.author.env import TypesOnly
from opshift.author.node import Node
from opshift.author.scope_types import by_graph
from opshift.author.traits import FatalSizes, Shrinks, answer_of
from opshift.lazy import deferred
from opshift.model import imports
from opshift.model.arrays import Array, to_array
from opshift.model.functions import functions_of
from opshift.model.scope import call_id, tensor_type
from opshift.model.walk import containers, nodes, nodes_in
from opshift.opsets import schemas
from opshift.opsets.types import rank_of, tensors_in
from opshift.protos import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    helper,
)

if TYPE_CHECKING:
    import numpy as np

    from opshift.author.registry import Registry
else:
    np = deferred("numpy")

Infer = Callable[[ModelProto], ModelProto]


def may_hold(data: bytes, adapters: Registry) -> bool:
    """Whether a model may have a negative size and an operator that must not see it."""
    return any(op.encode() in data for _, op in adapters.traits(FatalSizes)) and any(
        op.encode() in data for _, op in adapters.traits(Shrinks)
    )


def hide(model: ModelProto, domain: str, adapters: Registry, infer: Infer) -> bool:
    """Gives the nodes with a negative size this domain; returns whether others may have one, too.

    `infer` is called for a model in which the operators that must not see one have that domain.
    """
    fatal = [node for node in nodes(model) if _key(node) in adapters.traits(FatalSizes)]
    suspects = list(_suspects(model, adapters)) if fatal else []
    if not suspects:
        return False
    names = [node.domain for node in fatal]
    for node in fatal:
        node.domain = domain
    sizes = list(_sizes(infer(model)))
    for node, own in zip(fatal, names, strict=True):
        node.domain = own
    unsure = False
    for position, node in suspects:
        known = None if position is None else sizes[position]
        if known is None or any(size is not None and size < 0 for size in known):
            node.domain = domain
        elif None in known:
            unsure = True
    return unsure


def _key(node: NodeProto) -> tuple[str, str]:
    return schemas.normal(node.domain), node.op_type


def _suspects(model: ModelProto, adapters: Registry) -> Iterator[tuple[int | None, NodeProto]]:
    """The nodes that may have a negative size, and the number of each in the graph of the model."""
    declared, own = adapters.traits(Shrinks), functions_of(model)
    held = _Constants(model)
    env = TypesOnly(held.types, held.value)
    for owner in imports.owners(model):
        body = owner if isinstance(owner, FunctionProto) else owner.graph
        versions = imports.versions(owner)
        for position, node in enumerate(nodes_in(body)):
            if (key := _key(node)) not in declared or call_id(node) in own:
                continue
            seen = Node(node, schemas.schema(*key, versions.get(key[0], 0)), env)
            excluded = (answer_of(one.excluded, seen) for one in declared[key])
            if seen.schema is not None and not all(excluded):
                yield position if owner is model else None, node


class _Constants:
    """The constants of a model that no node computes; a name may stand for several."""

    def __init__(self, model: ModelProto) -> None:
        self.held: dict[str, list[TensorProto | AttributeProto]] = {}
        for container in containers(model):
            for tensor in container.initializer if isinstance(container, GraphProto) else ():
                self.held.setdefault(tensor.name, []).append(tensor)
            for node in container.node:
                if _key(node) == ("", "Constant") and node.output and node.attribute:
                    self.held.setdefault(node.output[0], []).append(node.attribute[0])

    @functools.cached_property
    def types(self) -> dict[str, TypeProto | None]:
        """The types of initializers with a name of their own."""
        alone = ((name, same[0]) for name, same in self.held.items() if len(same) == 1)
        return {name: tensor_type(one) for name, one in alone if isinstance(one, TensorProto)}

    def value(self, name: str) -> Array | None:
        """The value of a constant, or all numbers that its name may stand for."""
        found = [_array(one) for one in self.held.get(name, ())]
        if len(found) < 2:
            return found[0] if found else None
        return np.concatenate([one.reshape(-1) for one in found])


def _array(held: TensorProto | AttributeProto) -> Array:
    if isinstance(held, TensorProto):
        return to_array(held)
    if held.HasField("t"):
        return to_array(held.t)
    kind = CONSTANT_FORMS.get(held.name)
    return np.array(helper.get_attribute_value(held) if kind is not None else [], dtype=kind)


def _sizes(model: ModelProto) -> Iterator[list[int | None]]:
    """The sizes of the outputs of each node of the graph, in order; None for an unknown size."""
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
