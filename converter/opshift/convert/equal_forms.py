# SPDX-License-Identifier: Apache-2.0
"""Replaces nodes by equivalent nodes of the same opset: newer ones, or ones that a runtime runs."""

from __future__ import annotations

import dataclasses
import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from opshift.author.surroundings import Surroundings, node_at, readers
from opshift.author.traits import DeclaredRules, answer_of
from opshift.author.verdicts import ALTERNATIVE, FORM, WORDS
from opshift.codes.refusals import Why
from opshift.convert import wider
from opshift.convert.change import NodeChange
from opshift.convert.end_checks import done
from opshift.convert.other_words import OtherWords
from opshift.convert.runtime import form_lacks, kernel_lacks, operator_lacks, runnable
from opshift.convert.runtime.lack import fixed_shape
from opshift.convert.state import State
from opshift.convert.step import Stepper
from opshift.convert.verdict_edges import edge_at
from opshift.model.document import Document
from opshift.model.scope import Key, Place, Root
from opshift.model.sweep import sweep
from opshift.opsets import cast_pairs, schemas
from opshift.opsets.elements import T
from opshift.opsets.types import element_of
from opshift.opsets.wanted import Wanted
from opshift.protos import ModelProto, NodeProto
from opshift.protos.copies import as_model

if TYPE_CHECKING:
    from opshift.author.builder import Builder
    from opshift.convert.runtime.lack import RuntimeLack
    from opshift.errors import RefusedNode
    from opshift.opsets.targets import RuntimeRelease

CAST: Key = ("", "Cast")
LOWEST = 7  # the lowest opset for `WORDS` rules, because operators broadcast from opset 7 on
# Cast-1 has its type as a string, and no runtime that merges Casts has kernels for it.
NUMBERED_CAST = 6

# The nodes that a runtime does not run, with their operators.
Lacked: TypeAlias = "list[tuple[Place, Key]]"
# The operators from which new values were written, by graph or function and by value name.
Origins: TypeAlias = dict[tuple[int, str], frozenset[Key]]
Runs: TypeAlias = "Callable[[NodeChange], bool]"
Boundary: TypeAlias = "tuple[int, int]"


def write(state: State) -> None:
    """Replaces nodes by the equivalent nodes that the caller asks for or the runtime needs."""
    _plan_unforeseen(state)
    if state.options.modernize:
        _modernize(state)
    if state.steps or isinstance(state.options.target, Wanted):
        _reform(state)
        _plan_unforeseen(state)
    if state.runtime is not None:
        _choose(state, state.runtime)
    if not state.for_types:
        _part_casts(state)


def _plan_unforeseen(state: State) -> None:
    """Plans equivalent nodes for operators that adapters wrote although the plan lacked them."""
    if state.plan.unforeseen:
        state.plan_forms()


def _modernize(state: State) -> None:
    """Replaces nodes by newer operators that compute exactly the same."""
    from opshift.convert.modernize import Modernizer, in_order

    for version in state.document.versions_of(""):
        for rule in in_order(state.adapters, version):
            stepper = state.stepper_of(Modernizer, "", version, version).of(rule)
            if (release := state.runtime) is not None:
                stepper.runs = functools.partial(_runs, release, state.adapters)
            step = stepper.run()
            if step.rewritten:
                done(state, step)
                state.sites += stepper.sites
                state.repaired = True
                sweep(state.document)


def _reform(state: State) -> None:
    """Replaces nodes by equivalent nodes that more runtimes can run."""
    for domain in sorted(state.goal):
        for version in state.document.versions_of(domain):
            stepper = state.stepper(domain, version, version)
            stepper.boundary, stepper.goal = FORM, version
            if (release := state.runtime) is not None:
                stepper.runs = functools.partial(_reads, release)
            step = stepper.run()
            if step.rewritten:
                done(state, step)


def _choose(state: State, release: RuntimeRelease) -> None:
    """Replaces nodes that a runtime cannot run by equivalent nodes that it can run."""
    if release.other_forms:
        _write_others(state, None, _named(state, release))
    runs = functools.partial(_runs, release, state.adapters)
    lacked = _lacked(state, release)
    written = _write_others(state, runs, lacked)
    if _write_wider(state, release) or written:
        # new nodes may be misread because of their neighbours
        _write_others(state, runs, _misread(state, release, neighbours=True))
        lacked = _lacked(state, release)
    _write_in_other_words(state, release, lacked)
    _write_for_certain(state, release)


def _lacked(state: State, release: RuntimeRelease) -> Lacked:
    """Returns the nodes that a runtime does not know, has no kernel for, or handles wrongly."""
    facts = state.facts
    failed = form_lacks.failed_forms(facts, release).items()
    unread = operator_lacks.unread(state.document, release)
    return [
        *((place, key) for place, key, *_ in kernel_lacks.without_kernel(facts, release)),
        *_misread(state, release),
        *((place, key) for (key, _), places in failed for place in places),
        *((place, key) for root, key, _ in unread for place in root.index[key]),
    ]


def _write_in_other_words(state: State, release: RuntimeRelease, lacked: Lacked) -> None:
    """Replaces the remaining nodes that the runtime cannot run by other operators that it has.

    A node is never replaced by an operator that it replaced before, so the search ends.
    """
    opset = state.document.imports.get("") or 1
    if opset < LOWEST or not lacked:
        return
    words, origins = OtherWords(state.adapters, release, opset), Origins()
    leads = functools.partial(_leads, release, words, origins, state.adapters)
    wrote_any = True
    while wrote_any and lacked:
        _plan_unforeseen(state)
        wrote_any = False
        for place in (ALTERNATIVE, WORDS):
            if _write_others(state, leads, lacked, place):
                wrote_any, lacked = True, _lacked(state, release)


def _leads(
    release: RuntimeRelease,
    words: OtherWords,
    origins: Origins,
    rules: DeclaredRules,
    change: NodeChange,
) -> bool:
    """Returns whether a runtime can run each new node, or a further replacement of the node.

    If a replacement has the operator of the replaced node and still does not run, it is not
    replaced again.
    """
    root, builder = id(change.builder.scope.root), change.builder
    earlier = set[Key]().union(
        *(origins.get((root, name), ()) for name in change.node.proto.output)
    )
    came_from = {change.task.key, *earlier}
    for node in change.made.nodes:
        key = (schemas.normal(node.domain), node.op_type)
        if key == change.task.key and key in earlier:
            return False
        if not runnable.runs([node], builder, release, rules):
            kind = _kind(node, builder)
            if key in came_from or not words.of_kind(kind).lead_from(key):
                return False
    written = [(root, name) for node in change.made.nodes for name in node.output]
    origins.update(dict.fromkeys(written, frozenset(came_from)))
    return True


def _kind(node: NodeProto, builder: Builder) -> str:
    """Returns the element type in which a node computes, or "" if it is unknown."""
    names = filter(None, (*node.input, *node.output))
    kinds = {element_of(builder.env.type(name)) for name in names} - {"bool"}
    return kinds.pop() if len(kinds) == 1 else ""


def refusals(
    state: State, release: RuntimeRelease, lacks: Iterable[RuntimeLack]
) -> Iterator[RefusedNode]:
    """Yields a refusal for each lacking operator, with the operators that its rewrite needs."""
    lacks, opset = list(lacks), state.document.imports.get("") or 1
    named = any(lack.op for lack in lacks)
    words = OtherWords(state.adapters, release, opset) if named else None
    for runtime_lack in lacks:
        key = (runtime_lack.domain, runtime_lack.op)
        refused = _placed(state, runtime_lack)
        needed = (
            [op for op in words.missing(key) if op != runtime_lack.op]
            if words and runtime_lack.op
            else []
        )
        if needed:
            says = f"{runtime_lack.says}, and its replacement needs {', '.join(needed)}"
            yield dataclasses.replace(refused, detail=says)
        elif key in state.withheld:
            detail = f"{runtime_lack.says}; {state.withheld[key]}"
            yield dataclasses.replace(refused, why=Why.APPROXIMATE_ONLY, detail=detail)
        else:
            yield refused


def _placed(state: State, lack: RuntimeLack) -> RefusedNode:
    """Returns the refusal for a lack, with the source node of a new node, and a size to fix."""
    refused = lack.as_refusal(state.goal.get(lack.domain, 1))
    scopes = (scope for scope in state.document.scopes() if lack.value in scope.producers)
    scope = next(scopes, None)
    if scope is None:
        return refused
    node, shape = scope.node(scope.producers[lack.value]), lack.shape
    if not (shape or lack.types) and state.facts.depends_on_size(scope, lack.value):
        shape = fixed_shape(state.skeleton.graph)
    return dataclasses.replace(refused, node=state.document.where(node), shape=shape)


def _rewrites(state: State, stepper: Stepper, root: Root, places: Iterable[Place]) -> bool:
    """Makes a step that converts only the given nodes; returns whether it rewrote any node."""
    step = stepper.run_at(root, places)
    state.withheld |= stepper.withheld
    if step.rewritten:
        done(state, step)
    return bool(step.rewritten)


def _write_wider(state: State, release: RuntimeRelease) -> bool:
    """Computes nodes in wider types for which a runtime has kernels; returns whether it did."""
    written = False
    for key, types, places in list(wider.lacked(state, release)):
        root = places[0][0].root
        version = root.imports.get(key[0]) or 1
        stepper = state.stepper(key[0], version, version).of_adapter(wider.adapter(key, types))
        stepper.runs = functools.partial(_runs, release, state.adapters)
        written |= _rewrites(state, stepper, root, places)
    return written


def _write_for_certain(state: State, release: RuntimeRelease) -> None:
    """Replaces nodes that a runtime perhaps handles wrongly by equivalent nodes."""
    misread = _misread(state, release, doubtful=True)
    runs = functools.partial(_runs, release, state.adapters, doubtful=True)
    _write_others(state, runs, misread)


def _named(state: State, release: RuntimeRelease) -> Iterator[tuple[Place, Key]]:
    """Yields the nodes of the operators in the runtime's list `other_forms`."""
    for root in state.document.roots:
        for key in (("", op) for op in release.other_forms):
            yield from ((place, key) for place in root.index.get(key, ()))


def _misread(
    state: State, release: RuntimeRelease, *, neighbours: bool = False, doubtful: bool = False
) -> Iterator[tuple[Place, Key]]:
    """Yields the nodes that a runtime misreads, or only those misread because of adjacent nodes."""
    for key, misread, places in form_lacks.misread_nodes(state.facts, release, doubtful=doubtful):
        if misread.neighbours or not neighbours:
            yield from ((place, key) for place in places)


def _part_casts(state: State) -> None:
    """Separates adjacent Casts that steps wrote, because a runtime may merge them wrongly."""
    facts, read_by = state.facts, readers()
    parted = [
        ((scope, at), CAST)
        for scope, at in _meeting_casts(state)
        if answer_of(Surroundings(facts, scope, read_by).has_lossy_pair, node_at(facts, scope, at))
    ]
    if parted:
        edge = edge_at(state.adapters, *CAST, *ALTERNATIVE)
        state.plan.edges[(*CAST, edge.start, edge.to)] = edge
        _write_others(state, None, parted)


def _meeting_casts(state: State) -> Iterator[Place]:
    """Yields the second Cast of each new pair of Casts that gives other numbers when merged."""
    if not any("Cast" in kind.gives for step in state.steps for kind in step.rewritten):
        return
    pairs = [(root, *pair) for root in state.document.roots for pair in _cast_pairs(root)]
    casts_before = _outputs_of_casts(as_model(state.base)) if pairs else {}
    for root, place, *names in pairs:
        if not casts_before[root.name].issuperset(names):
            yield place


def _cast_pairs(root: Root) -> Iterator[tuple[Place, str, str]]:
    """Yields adjacent Casts that give other numbers when merged, with both output names."""
    places = root.index.get(CAST, ()) if (root.imports.get("") or 0) >= NUMBERED_CAST else ()
    for scope, position in places:
        last = scope.node(position)
        before = scope.producers.get(last.input[0])
        first = scope.node(before) if before is not None else None
        if first is None or first.op_type != "Cast" or first.domain:
            continue
        if _may_lose(_target_of(first), _target_of(last)):
            yield (scope, position), first.output[0], last.output[0]


def _may_lose(first: int, last: int) -> bool:
    """Returns whether Casts to `first` and then to `last` may differ from one Cast to `last`."""
    middle, target = T(first).name.lower(), T(last).name.lower()
    return any(cast_pairs.narrows(kind.name.lower(), middle, target) for kind in T)


def _target_of(cast: NodeProto) -> int:
    """Returns the element type to which a Cast converts, or 0 if that type does not exist."""
    number = next((attribute.i for attribute in cast.attribute if attribute.name == "to"), 0)
    return number if T.has(number) else 0


def _outputs_of_casts(model: ModelProto) -> dict[str, set[str]]:
    """Returns the output names of all Casts of a model, by the name of their graph or function."""
    outputs = defaultdict[str, set[str]](set)
    for root in Document(model).roots:
        for scope, position in root.index.get(CAST, ()):
            outputs[root.name].update(scope.node(position).output)
    return outputs


def _write_others(
    state: State,
    runs: Runs | None,
    nodes: Iterable[tuple[Place, Key]],
    place: Boundary = ALTERNATIVE,
) -> bool:
    """Replaces nodes by equivalent nodes that a runtime runs; returns whether it replaced any."""
    written, places_by_domain = False, dict[tuple[Root, str], list[Place]]()
    for node, (domain, _) in nodes:
        places_by_domain.setdefault((node[0].root, domain), []).append(node)
    for (root, domain), places in places_by_domain.items():
        version = root.imports.get(domain)
        if version is None:
            continue
        stepper = state.stepper(domain, version, version)
        stepper.boundary, stepper.goal = place, version
        stepper.runs = runs
        written |= _rewrites(state, stepper, root, places)
    return written


def _reads(release: RuntimeRelease, change: NodeChange) -> bool:
    """Returns whether a runtime knows the operator of each new node."""
    return operator_lacks.reads(change.made.nodes, change.builder.scope.root, release)


def _runs(
    release: RuntimeRelease, rules: DeclaredRules, change: NodeChange, *, doubtful: bool = False
) -> bool:
    """Returns whether a runtime can run each new node."""
    return runnable.runs(change.made.nodes, change.builder, release, rules, doubtful=doubtful)
