# SPDX-License-Identifier: Apache-2.0
"""Fixes the sizes of inputs, and folds the nodes that compute with sizes.

A node computes with sizes if its value is constant and follows from the shape of another value.
Other constants are left to the runtime.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from opshift.author import inference
from opshift.author.facts import Facts, ScopeEnv
from opshift.author.traits import Fold
from opshift.convert.change import Rewritten, Step
from opshift.convert.legal.author_rules import flawed
from opshift.convert.requests import input_sizes
from opshift.convert.requests.known_branches import constant_node, take_known
from opshift.convert.state import State
from opshift.errors import BadTarget
from opshift.model.arrays import Array, from_array
from opshift.model.replace import Replacement, replace_nodes
from opshift.model.scope import Place, Scope
from opshift.model.walk import containers_in, named
from opshift.opsets import schemas
from opshift.opsets.types import dims_of, is_complete, rank_of, tensors_in
from opshift.protos import GraphProto, NodeProto, TypeProto, ValueInfoProto

LARGEST = 1 << 16  # bytes of a constant; a node that fills a larger one stays
SOURCE = "opshift.convert.requests.fixed_shapes"


def fix_shapes(state: State, shape: Mapping[str, Sequence[int]], dim: Mapping[str, int]) -> None:
    """Gives inputs fixed sizes, folds values that become known, and removes unread nodes."""
    graph = state.skeleton.graph
    sizes = input_sizes.wanted_sizes(graph, shape, dim)
    fixed = list(_fixed_inputs(graph, shape, sizes))
    if not fixed:
        return
    faulty_before = {place for place, _ in _contradictions(state, graph)}
    _write_sizes(graph, shape, sizes)
    state.reopen()
    step = _fold(state)
    _require_possible(state, graph, faulty_before)
    _complete_declarations(state, graph)
    step.assumptions += [f"{name!r} has the shape {text}" for name, text in fixed]
    state.repaired = True
    state.done(step)


def _fixed_inputs(
    graph: GraphProto, shape: Mapping[str, Sequence[int]], sizes: Mapping[str, int]
) -> Iterator[tuple[str, str]]:
    """The inputs that change, each with its new shape."""
    for name, value in input_sizes.free_inputs(graph).items():
        after = TypeProto()
        after.CopyFrom(value.type)
        _substitute(after, sizes)
        if name in shape:
            input_sizes.give_shape(after, shape[name])
        if after != value.type:
            dims = after.tensor_type.shape.dim
            texts = (str(d.dim_value) if d.HasField("dim_value") else d.dim_param for d in dims)
            yield name, ",".join(text or "?" for text in texts)


def _substitute(found: TypeProto, sizes: Mapping[str, int]) -> None:
    """Writes sizes in place of the names of dimensions."""
    for tensor in tensors_in(found):
        for dim in tensor.shape.dim:
            if dim.dim_param in sizes:
                dim.dim_value = sizes[dim.dim_param]


def _write_sizes(
    graph: GraphProto, shape: Mapping[str, Sequence[int]], sizes: Mapping[str, int]
) -> None:
    for inner in containers_in(graph):
        assert isinstance(inner, GraphProto)
        for value in (*inner.input, *inner.output, *inner.value_info):
            _substitute(value.type, sizes)
    inputs = input_sizes.free_inputs(graph)
    for name, wanted in shape.items():
        input_sizes.give_shape(inputs[name].type, wanted)


# -- folding -------------------------------------------------------------------------------------


def _computed(state: State) -> Iterator[Place]:
    """The nodes of graphs, each after its producers; the sizes in functions are unknown."""
    for root in state.document.roots:
        for scope in root.scopes if root.kind != "function" else ():
            for position in scope.sorted_positions():
                yield scope, position


def _fold(state: State) -> Step:
    """Folds nodes until inference finds no more sizes."""
    version = state.document.imports.get("") or 0
    step, folded = Step("", version, version), set[str]()
    while True:
        known = list(_sizes(state, folded))
        folded |= {name for _, name, _ in known}
        replacements = list(_replacements(state, known, step))
        replace_nodes(state.document, replacements)
        branches = take_known(state, folded)
        for one in branches:
            _count(step, one, "known-branch", "The fixed sizes decide which branch runs.")
        replace_nodes(state.document, branches)
        if not replacements and not branches:
            return step
        state.settle_nodes()
        state.reopen()


def _sizes(state: State, folded: Collection[str]) -> Iterator[tuple[Place, str, Array]]:
    """The constants that follow from shapes, without shapes that are only declared."""
    rules, derived = state.adapters.rules(Fold), set[tuple[Scope | None, str]]()
    for scope, position in _computed(state):
        node = scope.node(position)
        rule = rules.get((schemas.normal(node.domain), node.op_type))
        reads = [name for name in node.input if name]
        starts = rule is not None and not any(map(rule.needs, range(len(node.input))))
        if starts or any(name in folded or (scope.owner(name), name) in derived for name in reads):
            derived |= {(scope, name) for name in node.output}
            found = state.facts.evaluated(Facts.find_constant, scope, node.output[0])
            if found.found is not None and not found.claims and rule is not None:
                yield (scope, position), node.output[0], found.found


def _replacements(
    state: State, known: Iterable[tuple[Place, str, Array]], step: Step
) -> Iterator[Replacement]:
    """A constant in the place of each node that computes with sizes."""
    for (scope, position), name, value in known:
        if value.nbytes > LARGEST:
            continue
        made = constant_node(from_array(value), name)
        nodes = [made]
        if not _is_legal(made, scope):  # before opset 9, only initializers hold integers
            if name in scope.outputs or not isinstance(scope.proto, GraphProto):
                continue
            nodes = []
            scope.add_initializer(from_array(value, name))
            state.document.added_initializers = True
        one = Replacement((scope, position), nodes)
        _count(step, one, "known-size", "The fixed sizes decide its value.")
        yield one


def _count(step: Step, replacement: Replacement, rule: str, why: str) -> None:
    """Counts a replacement for the report."""
    scope, position = replacement.place
    emits = tuple(node.op_type for node in replacement.nodes) or ("Constant",)
    step.rewritten[Rewritten(scope.node(position).op_type, emits, SOURCE, rule, why)] += 1


def _is_legal(constant: NodeProto, scope: Scope) -> bool:
    """Whether a Constant can hold its tensor at the version of its graph."""
    schema = scope.root.schema_of(constant)
    kind = schemas.element_name(constant.attribute[0].t.data_type)
    return schema is not None and f"tensor({kind})" in schema.outputs[0].types


# -- what contradicts the sizes ------------------------------------------------------------------


def _contradictions(state: State, graph: GraphProto) -> Iterator[tuple[str, str]]:
    """The places that inference, an author or a declaration of an output shows to be wrong."""
    for scope, position in _computed(state):
        node = scope.node(position)
        if scope.root.schema_of(node) is not None:
            told = inference.objection(node, ScopeEnv(state.facts, scope))
            if told is not None:
                yield f"{named(node)} cannot compute", told
    for node, flaw in flawed(state.document, state.facts, state.adapters):
        if isinstance(flaw, str):
            yield f"{named(node)} cannot compute", flaw
    for value in graph.output:
        found = state.facts.confirmed(state.document.main, value.name)
        pairs = zip(dims_of(value.type), dims_of(found) if found is not None else (), strict=False)
        for axis, (declared, size) in enumerate(pairs):
            if isinstance(declared, int) and isinstance(size, int) and declared != size:
                yield (
                    f"the output {value.name!r} is impossible",
                    f"dimension {axis} is {declared} in the model and would be {size}",
                )


def _require_possible(state: State, graph: GraphProto, before: set[str]) -> None:
    """Raises if a node cannot compute with the sizes."""
    for place, told in _contradictions(state, graph):
        if place not in before:
            raise BadTarget(f"{place} with these sizes: {told}; change them")


def _complete_declarations(state: State, graph: GraphProto) -> None:
    """Writes the inferred sizes into the declarations of outputs and values."""
    state.facts.correct()
    top = state.document.main
    for value in (*graph.output, *graph.value_info):
        found = state.facts.confirmed(top, value.name)
        if found is not None and is_complete(found) and not _is_fixed(value):
            value.type.tensor_type.shape.CopyFrom(found.tensor_type.shape)


def _is_fixed(value: ValueInfoProto) -> bool:
    return rank_of(value.type) is not None and is_complete(value.type)
