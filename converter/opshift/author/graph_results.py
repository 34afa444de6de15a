# SPDX-License-Identifier: Apache-2.0
"""Finds the output types of a node with subgraphs from the facts about the subgraphs' results.

The facts about a subgraph are computed once. Inference of the whole node would be repeated for each
outer node with this subgraph.
"""

from __future__ import annotations

import functools
from typing import TypeAlias

from opshift.author.env import ModelEnv
from opshift.author.node import Env
from opshift.author.traits import Carries, Chooses
from opshift.model.walk import graphs_of
from opshift.opsets import schemas
from opshift.opsets.types import dims_of, rank_of, shared, stacked
from opshift.protos import GraphProto, NodeProto, TypeProto

Types: TypeAlias = dict[str, TypeProto]


def types_of_results(node: NodeProto, env: ModelEnv) -> Types | None:
    """Returns the output types of a node; None if only inference of the node can find them."""
    graphs = dict(graphs_of(node))
    if any(id(graph) not in env.scope.root.by_graph for graph in graphs.values()):
        return None  # an adapter is writing the node
    key = (schemas.normal(node.domain), node.op_type)
    if env.rules(Chooses).get(key) is not None:
        return _chosen(node, env, [*graphs.values()])
    carries = env.rules(Carries).get(key)
    if carries is None or carries.graph not in graphs:
        return None
    return _carried(node, env, carries, graphs[carries.graph])


def _chosen(node: NodeProto, env: ModelEnv, branches: list[GraphProto]) -> Types:
    """Returns the output types of a node such as If, whose outputs come from one subgraph."""
    types: Types = {}
    inside = [env.inside(branch) for branch in branches]
    for i, name in enumerate(node.output):
        if any(i >= len(branch.output) for branch in branches):
            break
        results = [*zip(inside, (branch.output[i].name for branch in branches), strict=True)]
        kind = functools.reduce(shared, [_used(*result) for result in results])
        if name and kind is not None:
            types[name] = kind
    return types


def _carried(node: NodeProto, env: ModelEnv, rule: Carries, body: GraphProto) -> Types | None:
    """Returns the output types of a loop if the facts about its inputs also hold in its body.

    If facts about the inputs do not hold in the body, induction over the loop may find more types.
    """
    inside, inputs = env.inside(body), [*node.input]
    for i, value in enumerate(body.input):
        if not inside.is_read(value.name):
            continue
        input_type = env.type(inputs[i]) if i < len(inputs) and inputs[i] else None
        if not _begins_with(inside.type(value.name), input_type, carried=i >= rule.inputs):
            return None
    types: Types = {}
    states = len(body.input) - rule.inputs
    for i, (name, result) in enumerate(zip(node.output, body.output[rule.outputs :], strict=False)):
        kind, at = _used(inside, result.name), rule.inputs + i
        if i >= states:
            kind = None if kind is None else stacked(kind)
        elif at < len(inputs) and inputs[at]:
            kind = shared(_used(env, inputs[at]), kind)
        if name and kind is not None:
            types[name] = kind
    return types


def _begins_with(inner: TypeProto | None, outer: TypeProto | None, *, carried: bool) -> bool:
    """Returns whether the type of a body's input allows every value of the given type."""
    if carried and outer is None:
        return True
    if inner is None or schemas.type_name(inner) is None:
        return False
    if not carried:
        return rank_of(inner) is not None
    if outer is None or rank_of(outer) is None:
        return True
    return rank_of(inner) == rank_of(outer) and all(
        inner_dim == more
        for inner_dim, more in zip(dims_of(inner), dims_of(outer), strict=True)
        if more
    )


def _used(env: Env, name: str) -> TypeProto | None:
    kind = env.type(name)
    if rank_of(kind) is not None:
        env.use_rank(name)
    return kind
