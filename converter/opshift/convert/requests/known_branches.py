# SPDX-License-Identifier: Apache-2.0
"""Replaces a node that always runs the same branch by the nodes of this branch."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from opshift.author.traits import Chooses
from opshift.convert.state import State
from opshift.model.rename import rename
from opshift.model.replace import Replacement, constant_node
from opshift.model.scope import Place, Scope
from opshift.model.walk import graphs_of
from opshift.opsets import schemas
from opshift.protos import GraphProto, NodeProto


def take_known(state: State, sizes: Collection[str]) -> list[Replacement]:
    """Returns the branches that replace nodes such as If, if `sizes` determine the branch."""
    branches = dict(_known(state, sizes))
    return [
        Replacement(place, list(_nodes_of(state, place, branch)))
        for place, branch in _outermost(branches)
    ]


def _known(state: State, sizes: Collection[str]) -> Iterator[tuple[Place, GraphProto]]:
    """Yields nodes such as If that always run the same branch, with this branch."""
    rules = state.adapters.rules(Chooses)
    for root in state.document.roots:
        for key in sorted(root.index) if root.kind != "function" else ():
            if (rule := rules.get(key)) is None:
                continue
            for scope, position in root.index[key]:
                node = scope.node(position)
                value = state.facts.constant(scope, node.input[0])
                if value is None or node.input[0] not in sizes:
                    continue
                branch = dict(graphs_of(node))[rule.true if value.item() else rule.false]
                if not (branch.sparse_initializer or branch.quantization_annotation):
                    yield (scope, position), branch


def _outermost(branches: dict[Place, GraphProto]) -> Iterator[tuple[Place, GraphProto]]:
    """Yields the nodes that are not inside another of the nodes; later calls treat the others."""
    holders = {
        id(graph) for scope, at in branches for _, graph in graphs_of(scope.node(at))
    }  # fmt: skip
    for (scope, position), branch in branches.items():
        if not any(id(around.proto) in holders for around in scope.chain()):
            yield (scope, position), branch


def _nodes_of(state: State, place: Place, branch: GraphProto) -> Iterator[NodeProto]:
    """Yields the nodes of a branch with new names; its results get the output names of the node."""
    scope, position = place
    graph = scope.root.copy_of(branch)
    outputs = [name or state.document.fresh("unread") for name in scope.node(position).output]
    computed = [name for node in graph.node for name in node.output if name]
    names = {name: state.document.fresh(name) for name in computed}
    names |= {tensor.name: state.document.fresh(tensor.name) for tensor in graph.initializer}
    copies = list[tuple[str, str]]()
    for value, output in zip(graph.output, outputs, strict=True):
        if value.name in computed and names[value.name] not in outputs:
            names[value.name] = output
        else:
            copies.append((value.name, output))
    for tensor in graph.initializer:
        yield constant_node(tensor, names[tensor.name])
    for node in graph.node:
        rename(node, names)
        yield node
    for source, output in copies:
        yield NodeProto(op_type="Identity", input=[names.get(source, source)], output=[output])


def is_legal(constant: NodeProto, scope: Scope) -> bool:
    """Returns whether a Constant can contain its tensor at the opset of its graph."""
    schema = scope.root.schema_of(constant)
    kind = schemas.element_name(constant.attribute[0].t.data_type)
    return schema is not None and f"tensor({kind})" in schema.outputs[0].types
