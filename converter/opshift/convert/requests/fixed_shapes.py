# SPDX-License-Identifier: Apache-2.0
"""Fixes the sizes of inputs, and folds the nodes that compute with sizes.

A node computes with sizes if its value is constant and depends on the shape of another value. Other
constants are left to the runtime.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from opshift.author import inference
from opshift.author.facts import Facts, ScopeEnv
from opshift.author.traits import Fold
from opshift.convert.change import Rewritten, Step
from opshift.convert.legal.author_rules import flawed
from opshift.convert.requests import computed_sizes, input_sizes
from opshift.convert.requests.known_branches import is_legal, take_known
from opshift.convert.state import State
from opshift.errors import BadTarget
from opshift.model.arrays import Array, from_array
from opshift.model.document import Document
from opshift.model.replace import Replacement, constant_node, replace_nodes
from opshift.model.scope import Place, Scope
from opshift.model.walk import containers_in, named
from opshift.opsets import schemas
from opshift.opsets.types import dims_of, is_complete, rank_of, tensors_in
from opshift.protos import GraphProto, ModelProto, TypeProto
from opshift.protos.copies import copied

LARGEST = 1 << 16  # the most bytes of a folded constant; nodes with larger values stay
SOURCE = "opshift.convert.requests.fixed_shapes"


def fix_shapes(state: State, shape: Mapping[str, Sequence[int]], dim: Mapping[str, int]) -> None:
    """Fixes sizes of inputs, replaces values that become constant, and removes unread nodes."""
    graph = state.skeleton.graph
    sizes = input_sizes.wanted_sizes(graph, shape, dim)
    fixed = list(_fixed_inputs(graph, shape, sizes))
    if not fixed:
        return
    before = copied(state.skeleton)
    _write_sizes(graph, shape, sizes)
    state.reopen()
    _require_possible(state, state.facts, before, nested=False)  # folding removes branches
    step = _fold(state)
    facts = computed_sizes.facts_of(state)
    _require_possible(state, facts, before, nested=True)
    _complete_declarations(state, facts, graph)
    step.assumptions += [f"{name!r} has the shape {text}" for name, text in fixed]
    state.repaired = True
    state.done(step)


def _fixed_inputs(
    graph: GraphProto, shape: Mapping[str, Sequence[int]], sizes: Mapping[str, int]
) -> Iterator[tuple[str, str]]:
    """Yields the name and the new shape of each input whose shape changes."""
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


def _substitute(proto: TypeProto, sizes: Mapping[str, int]) -> None:
    """Replaces named dimensions of a type by sizes."""
    for tensor in tensors_in(proto):
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
    for name, sizes_of_input in shape.items():
        input_sizes.give_shape(inputs[name].type, sizes_of_input)


# -- folding -------------------------------------------------------------------------------------


def _computed(document: Document) -> Iterator[Place]:
    """Yields nodes of graphs in topological order. In functions, sizes are unknown."""
    for root in document.roots:
        for scope in root.scopes if root.kind != "function" else ():
            for position in scope.sorted_positions():
                yield scope, position


def _fold(state: State) -> Step:
    """Folds nodes repeatedly until inference finds no more sizes."""
    version = state.document.imports.get("") or 0
    step, folded = Step("", version, version), set[str]()
    while True:
        new_constants = list(_sizes(state, computed_sizes.facts_of(state), folded))
        folded |= {name for _, name, _ in new_constants}
        replacements = list(_replacements(state, new_constants, step))
        replace_nodes(state.document, replacements)
        branches = take_known(state, folded)
        for branch in branches:
            _count(
                step,
                branch,
                "known-branch",
                "The fixed sizes determine which branch of the node runs.",
            )
        replace_nodes(state.document, branches)
        if not replacements and not branches:
            return step
        state.sweep_and_sort()
        state.reopen()


def _sizes(
    state: State, facts: Facts, folded: Collection[str]
) -> Iterator[tuple[Place, str, Array]]:
    """Yields constants that depend on shapes, but not on shapes that are only declared."""
    rules, derived = state.adapters.rules(Fold), set[tuple[Scope | None, str]]()
    twins = dict(zip(state.document.scopes(), facts.document.scopes(), strict=True))
    for scope, position in _computed(state.document):
        node = scope.node(position)
        rule = rules.get((schemas.normal(node.domain), node.op_type))
        reads = [name for name in node.input if name]
        starts = rule is not None and not any(map(rule.needs, range(len(node.input))))
        if starts or any(name in folded or (scope.owner(name), name) in derived for name in reads):
            derived |= {(scope, name) for name in node.output}
            evaluation = facts.evaluated(Facts.find_constant, twins[scope], node.output[0])
            if evaluation.found is not None and not evaluation.claims and rule is not None:
                yield (scope, position), node.output[0], evaluation.found


def _replacements(
    state: State, new_constants: Iterable[tuple[Place, str, Array]], step: Step
) -> Iterator[Replacement]:
    """Yields a constant in place of each node that computes with sizes."""
    for (scope, position), name, value in new_constants:
        if value.nbytes > LARGEST:
            continue
        constant = constant_node(from_array(value), name)
        nodes = [constant]
        if not is_legal(constant, scope):  # before opset 9, only initializers can be integers
            if name in scope.outputs or not isinstance(scope.proto, GraphProto):
                continue
            nodes = []
            scope.add_initializer(from_array(value, name))
            state.document.added_initializers = True
        replacement = Replacement((scope, position), nodes)
        _count(step, replacement, "known-size", "The fixed sizes determine the value of the node.")
        yield replacement


def _count(step: Step, replacement: Replacement, rule: str, why: str) -> None:
    """Counts a replacement of a node for the report."""
    scope, position = replacement.place
    emits = tuple(node.op_type for node in replacement.nodes) or ("Constant",)
    step.rewritten[Rewritten(scope.node(position).op_type, emits, SOURCE, rule, why)] += 1


# -- what contradicts the sizes ------------------------------------------------------------------


class Contradiction(NamedTuple):
    """A place of the model that contradicts the fixed sizes."""

    place: str
    reason: str
    is_nested: bool = False  # whether the place is in a subgraph, which may never run
    by_rule: bool = False  # whether a rule of an adapter, not inference, found it


def _contradictions(state: State, facts: Facts) -> Iterator[Contradiction]:
    """Yields nodes and outputs that contradict inference, a declared type or a rule of an adapter.

    A runtime also infers the shapes of subgraphs that never run, but does not apply these rules.
    """
    document = facts.document
    flaws = {place: flaw for place, flaw in flawed(facts) if isinstance(flaw, str)}
    for scope, position in _computed(document):
        node, message, by_rule = scope.node(position), None, False
        if scope.root.schema_of(node) is not None:
            message = inference.objection(node, ScopeEnv(facts, scope))
        if message is None and (scope, position) in flaws:
            message, by_rule = flaws[scope, position], True
        if message is not None:
            place = f"{named(node)} cannot compute with these sizes"
            yield Contradiction(place, message, scope.parent is not None, by_rule)
    for value in document.model.graph.output:
        kind = facts.confirmed(document.main, value.name)
        pairs = zip(dims_of(value.type), dims_of(kind) if kind is not None else (), strict=False)
        for axis, (declared, size) in enumerate(pairs):
            if isinstance(declared, int) and isinstance(size, int) and declared != size:
                yield Contradiction(
                    f"the output {value.name!r} is impossible with these sizes",
                    f"dimension {axis} is {declared} in the model and would be {size}",
                )


def _require_possible(state: State, facts: Facts, before: ModelProto, *, nested: bool) -> None:
    """Raises if a node contradicts the sizes, but not in the model `before` they were fixed."""
    contradictions = [
        contradiction
        for contradiction in _contradictions(state, facts)
        if nested or not contradiction.is_nested
    ]
    if not contradictions:
        return
    faulty = {
        contradiction.place
        for contradiction in _contradictions(state, computed_sizes.facts_about(state, before))
    }
    for problem in contradictions:
        if problem.place in faulty:
            continue
        if not (problem.is_nested and problem.by_rule):
            raise BadTarget(f"{problem.place}: {problem.reason}; change them")
        state.notes.append(f"in a subgraph that may never run, {problem.place}: {problem.reason}")


def _complete_declarations(state: State, facts: Facts, graph: GraphProto) -> None:
    """Adds the inferred sizes to the declared shapes of outputs and inner values."""
    state.facts.correct()
    for value in (*graph.output, *graph.value_info):
        confirmed = facts.confirmed(facts.document.main, value.name)
        is_fixed = rank_of(value.type) is not None and is_complete(value.type)
        if confirmed is not None and is_complete(confirmed) and not is_fixed:
            value.type.tensor_type.shape.CopyFrom(confirmed.tensor_type.shape)
