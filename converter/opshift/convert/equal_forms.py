# SPDX-License-Identifier: Apache-2.0
"""Writes equal forms of nodes at one version: newer operators, or forms for runtimes."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

from opshift.author.verdicts import ALTERNATIVE, FORM
from opshift.convert import form_plan, request, wider
from opshift.convert.cast_chains import CAST
from opshift.convert.change import NodeChange
from opshift.convert.end_checks import done
from opshift.convert.legal import neighbours, runtime
from opshift.convert.state import State
from opshift.convert.step import Stepper
from opshift.convert.verdict_edges import edge_at
from opshift.model.scope import Place, Root
from opshift.model.sweep import sweep
from opshift.opsets.wanted import Wanted

if TYPE_CHECKING:
    from opshift.opsets.targets import Ceiling, Form

# The nodes that a runtime does not run, by their root and the domain of their operators.
Lacked: TypeAlias = "dict[tuple[Root, str], list[Place]]"


def write(state: State) -> None:
    """Writes the other forms that the request and the runtime want."""
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
    """Plans the forms of the operators that no verdict was known to write."""
    if state.plan.unforeseen:
        form_plan.plan_forms(state)


def _modernize(state: State) -> None:
    """Replaces nodes by newer operators that compute exactly the same."""
    from opshift.convert.modernize import Modernizer, in_order

    for version in request.present(state.document, ""):
        for rule in in_order(state.adapters, version):
            stepper = Modernizer(
                state.document, state.facts, state.plan, "", version, version,
                state.options.allow_approximate,
            ).of(rule)  # fmt: skip
            stepper.checks = state.options.checks
            if (row := state.runtime) is not None:
                stepper.runs = functools.partial(_runs, row)
            step = stepper.run()
            if step.rewritten:
                done(state, step)
                state.sites += stepper.sites
                state.repaired = True
                sweep(state.document)


def _reform(state: State) -> None:
    """Writes equal forms that more runtimes run."""
    for domain in sorted(state.goal):
        for version in sorted(request.present(state.document, domain)):
            stepper = state.stepper(domain, version, version)
            stepper.boundary, stepper.goal = FORM, version
            if (row := state.runtime) is not None:
                stepper.runs = functools.partial(_reads, row)
            step = stepper.run()
            if step.rewritten:
                done(state, step)


def _choose(state: State, row: Ceiling) -> None:
    """Replaces nodes that a runtime does not run by forms that it runs."""
    asked = (state.document, row, state.facts)
    if row.other_forms:
        _write_others(state, None, _named(state, row))
    lacked: Lacked = {}
    for place, key, *_ in runtime.without_kernel(*asked):
        lacked.setdefault((place[0].root, key[0]), []).append(place)
    _add_forms(lacked, runtime.in_form(*asked))
    for (key, _), places in runtime.failed_forms(*asked).items():
        for place in places:
            lacked.setdefault((place[0].root, key[0]), []).append(place)
    for root, key, _ in runtime.unread(state.document, row):
        lacked.setdefault((root, key[0]), []).extend(root.index[key])
    written = _write_others(state, row, lacked)
    if _write_wider(state, row) or written:
        beside: Lacked = {}  # the nodes that were written may stand beside others
        found = runtime.in_form(*asked)
        _add_forms(beside, (one for one in found if one[0].depends_on_neighbours))
        _write_others(state, row, beside)


def _rewrites(state: State, stepper: Stepper, root: Root, places: Iterable[Place]) -> bool:
    """Applies a stepper at some nodes; whether it rewrites one of them."""
    step = stepper.run_at(root, places)
    if step.rewritten:
        done(state, step)
    return bool(step.rewritten)


def _write_wider(state: State, row: Ceiling) -> bool:
    """Computes nodes in wider types, for which a runtime has a kernel; whether there are any."""
    written = False
    for key, types, places in list(wider.lacked(state, row)):
        root = places[0][0].root
        stepper = wider.stepper(state, key, types, root.imports.get(key[0]) or 1)
        stepper.runs = functools.partial(_runs, row)
        written |= _rewrites(state, stepper, root, places)
    return written


def _named(state: State, row: Ceiling) -> Lacked:
    """The nodes of the operators that the row names, whatever their form is."""
    found: Lacked = {}
    for root in state.document.roots:
        for op in row.other_forms:
            found.setdefault((root, ""), []).extend(root.index.get(("", op), ()))
    return found


def _add_forms(lacked: Lacked, found: Iterable[tuple[Form, list[Place]]]) -> None:
    for _, places in found:
        for place in places:
            lacked.setdefault((place[0].root, ""), []).append(place)


def _part_casts(state: State) -> None:
    """Parts the Casts that the steps brought together, where one Cast gives other numbers."""
    readers = functools.cache(neighbours.readers)
    parted: Lacked = {
        (root, ""): [
            (scope, at)
            for scope, at in places
            if neighbours.is_narrowed(scope, scope.node(at), state.facts, readers)
        ]
        for root, places in state.meeting_casts().items()
    }
    if any(parted.values()):
        edge = edge_at(state.adapters, *CAST, *ALTERNATIVE)
        state.plan.edges[(*CAST, edge.start, edge.to)] = edge
        _write_others(state, None, parted)


def _write_others(state: State, row: Ceiling | None, lacked: Lacked) -> bool:
    """Writes other forms of nodes, which a runtime runs if there is one; whether there are any."""
    written = False
    for (root, domain), places in lacked.items():
        version = root.imports.get(domain)
        if version is None:
            continue
        stepper = state.stepper(domain, version, version)
        stepper.boundary, stepper.goal = ALTERNATIVE, version
        if row is not None:
            stepper.runs = functools.partial(_runs, row)
        written |= _rewrites(state, stepper, root, places)
    return written


def _reads(row: Ceiling, change: NodeChange) -> bool:
    """Whether a runtime reads the operator of each node of a change."""
    return runtime.reads(change.made.nodes, change.builder.scope.root, row)


def _runs(row: Ceiling, change: NodeChange) -> bool:
    """Whether a runtime runs each node of a change."""
    return runtime.runs(change.made.nodes, change.builder, row)
