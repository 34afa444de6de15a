# SPDX-License-Identifier: Apache-2.0
"""Replaces nodes, and updates all tables of the document."""

from __future__ import annotations

from collections.abc import Sequence

from opshift.model.document import Document
from opshift.model.scope import Place, Scope
from opshift.model.settle import move_shardings
from opshift.model.walk import captures, graphs_of
from opshift.opsets import schemas
from opshift.protos import AttributeProto, GraphProto, NodeProto, TensorProto
from opshift.records import dataclass


@dataclass(frozen=True, slots=True)
class Replacement:
    """The nodes that replace one node; one of them, the `carrier`, overwrites the old node."""

    place: Place
    nodes: Sequence[NodeProto]
    carrier: NodeProto | None = None
    carried: frozenset[str] = frozenset()  # the attributes whose subgraphs are kept


def constant_node(tensor: TensorProto, name: str) -> NodeProto:
    """Returns a Constant node that produces a tensor as a value of the given name."""
    node = NodeProto(op_type="Constant", output=[name])
    node.attribute.add(name="value", type=AttributeProto.TENSOR).t.CopyFrom(tensor)
    return node


def replace_nodes(document: Document, replacements: Sequence[Replacement]) -> list[list[Place]]:
    """Replaces nodes by new nodes; returns the positions of the nodes of each replacement.

    All tables of the document are updated.
    """
    document.leave_index(replacement.place for replacement in replacements)
    lost = [graph for replacement in replacements for graph in _graphs_lost(replacement)]
    places = [_replace(document, replacement) for replacement in replacements]
    document.forget_scopes(lost)
    document.rewritten.update(place for written in places for place in written)
    if replacements:
        document.note_change()
    return places


def _graphs_lost(replacement: Replacement) -> list[GraphProto]:
    """Returns the subgraphs of a replaced node that no new node contains."""
    scope, position = replacement.place
    node = scope.node(position)
    key = (schemas.normal(node.domain), node.op_type)
    if replacement.carried or not schemas.may_hold_graphs(*key):
        return []
    return [graph for _, graph in graphs_of(node)]


def _replace(document: Document, replacement: Replacement) -> list[Place]:
    """Writes the nodes of one replacement; returns their positions."""
    scope, position = replacement.place
    nodes = replacement.nodes
    _mark_unread(document, replacement)
    _take_away(document, replacement)
    for graph in _graphs_lost(replacement):
        document.mark_unread(scope, captures(graph))
    if len(nodes) == 1:
        _overwrite(document, replacement, nodes[0])
        return [replacement.place]
    if nodes:
        return _spread(document, replacement)
    scope.removed.add(position)
    return []


def _take_away(document: Document, replacement: Replacement) -> None:
    """Removes the outputs of a replaced node from the tables, unless a new node writes them."""
    scope, position = replacement.place
    written = {name for node in replacement.nodes for name in node.output}
    lost = set(filter(None, scope.node(position).output)) - written
    if lost:
        document.gone.setdefault(scope, set()).update(lost)
    if "producers" in vars(scope):
        for name in lost:
            scope.producers.pop(name, None)


def _mark_unread(document: Document, replacement: Replacement) -> None:
    """Records the inputs and outputs of a replaced node that may be unread now."""
    scope, position = replacement.place
    node = scope.node(position)
    read = {name for node in replacement.nodes for name in node.input}
    document.mark_unread(scope, [name for name in node.input if name not in read])
    if len(replacement.nodes) > 1 < len(node.output):
        # An unread output costs nothing, but a node with only unread outputs takes time.
        outputs = [name for name in node.output if name]
        unread = [name for name in outputs if not document.names.is_read(scope, name)]
        if len(unread) < len(outputs):
            document.mark_unread(scope, unread)


def _spread(document: Document, replacement: Replacement) -> list[Place]:
    """Writes several nodes for one; the carrier, or the last node, overwrites the old node."""
    (scope, position), nodes = replacement.place, replacement.nodes
    target = scope.node(position)
    main = next(
        (i for i, new_node in enumerate(nodes) if new_node is replacement.carrier), len(nodes) - 1
    )
    base = scope.order.get(position) or (position,)
    original = NodeProto(name=target.name)
    if hasattr(target, "device_configurations"):
        original.device_configurations.extend(target.device_configurations)
    places = []
    for i, node in enumerate(nodes):
        at = position if i == main else len(scope.proto.node)
        scope.order[at] = (*base, i)
        if i == main:
            _overwrite(document, replacement, node)
        else:
            _name(document, scope, node, original)
            scope.proto.node.append(_companion(node, original))
            document.enter_node(scope, at)
        places.append((scope, at))
    beside = [scope.node(at) for _, at in places if at != position]
    move_shardings(document, replacement.place, beside)
    return places


def _overwrite(document: Document, replacement: Replacement, node: NodeProto) -> None:
    """Overwrites the old node, which keeps its name, its metadata and the kept subgraphs."""
    scope, position = replacement.place
    target = scope.node(position)
    if node.op_type != target.op_type and target.name in scope.repeated_names:
        target.name = document.fresh(node.op_type)
    del target.input[:]
    target.input.extend(node.input)
    del target.output[:]
    target.output.extend(node.output)
    target.op_type = node.op_type
    if schemas.normal(target.domain) != schemas.normal(node.domain):
        target.domain = node.domain
    for i in range(len(target.attribute) - 1, -1, -1):
        if target.attribute[i].name not in replacement.carried:
            del target.attribute[i]
    target.attribute.extend(node.attribute)
    document.enter_node(scope, position)
    if getattr(target, "device_configurations", ()):
        document.sharded[scope, position] = None


def _name(document: Document, scope: Scope, node: NodeProto, original: NodeProto) -> None:
    """Gives a new node a unique name if the old node had a name; runtimes reject repeated names."""
    if node.name and node.name not in scope.node_names:
        scope.node_names.add(node.name)
    elif node.name or original.name:
        node.name = document.fresh(node.op_type)


def _companion(node: NodeProto, original: NodeProto) -> NodeProto:
    """Gives a new node the device configurations of the old node, without shardings."""
    if hasattr(original, "device_configurations"):
        for configuration in original.device_configurations:
            copy = node.device_configurations.add()
            copy.CopyFrom(configuration)
            del copy.sharding_spec[:]
    return node
