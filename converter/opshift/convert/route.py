# SPDX-License-Identifier: Apache-2.0
"""Makes the steps of a conversion in the right order."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from opshift.author import inference
from opshift.convert import form_plan, leave, overdue, planner, request
from opshift.convert.end_checks import done
from opshift.convert.state import Boundaries, State
from opshift.model import imports
from opshift.model.scope import Key


def travel(state: State) -> None:
    """Converts the model to the target versions, through other versions first if needed."""
    state.left_late = leaves_late(state)
    if not state.left_late:
        _leave(state)
    _leave_if_possible(state)
    _visit_above(state, state.strategy.via_above)
    if state.strategy.via_below:
        state.goal.setdefault("", max(request.present(state.document, "")))
        state.visits[""] = min(
            state.visits.get("", state.strategy.via_below), state.strategy.via_below
        )
    if state.visits:
        _visit(state, state.visits)
    if state.strategy.reinfers_between:
        _stop_between(state)
    _go(state)
    if state.left_late:
        _leave(state)


def leaves_late(state: State) -> bool:
    """Returns whether unwanted domains are replaced after the steps, at the higher target opset."""
    own = max(request.present(state.document, ""), default=0)
    goal = state.goal.get("", 0)
    if not 0 < own < goal or state.strategy.leaves_first or state.visits:
        return False
    left = _left(state)
    return bool(left) and leave.lowest(state.adapters, left) <= goal


def _left(state: State) -> frozenset[tuple[str, str]]:
    allowed, row = state.options.domains, state.runtime
    return leave.operators(state.document, state.facts, state.adapters, allowed, row)


def _leave(state: State) -> None:
    """Replaces operators of domains that the result must not use by operators of ai.onnx.

    If the model's opset is too low for the replacements, the model is raised first and lowered
    afterwards.
    """
    allowed = state.options.domains
    request.known_domains(state.document, allowed or ())
    left = _left(state)
    own = request.present(state.document, "")
    if allowed is not None and len(own) == 1:
        state.goal.setdefault("", own[0])
    _visit_above(state, leave.lowest(state.adapters, left))
    while left:
        _write_out(state, left)
        left = _left(state)


def _leave_if_possible(state: State) -> None:
    """Replaces operators that the runtime may lack by operators of ai.onnx, if possible."""
    opset = min(request.present(state.document, ""), default=0)
    written = True
    while written:
        left = leave.perhaps_lacked(state.document, state.adapters, state.runtime, opset)
        written = bool(left) and _write_out(state, left, needed=False)


def _write_out(state: State, left: Collection[Key], *, needed: bool = True) -> bool:
    """Replaces operators by ai.onnx operators if types are known; returns whether it did any."""
    _plan(state, left)
    written = False
    for step in leave.leave(state.document, left, state.stepper, needed=needed):
        written = state.repaired = True
        done(state, step)
    if written:
        state.settle_nodes()
        state.reopen()
    return written


def _visit_above(state: State, low: int) -> None:
    """Converts a model upwards to an opset that a later step needs; `travel` lowers it again."""
    own = request.present(state.document, "")
    if own and min(own) < low:
        state.goal.setdefault("", max(own))
        _visit(state, {"": max(low, *own)})


def _stop_between(state: State) -> None:
    """Stops at each opset on the way, so that the types of the whole model are inferred there."""
    own = max(request.present(state.document, ""), default=0)
    goal = state.goal.get("", own)
    for opset in range(own - 1, goal, -1) if goal < own else range(own + 1, goal):
        if opset >= inference.LOWEST:
            _visit(state, {"": opset})


def _visit(state: State, versions: dict[str, int]) -> None:
    """Converts the model to intermediate versions before the conversion to the target."""
    goal, state.goal = state.goal, versions
    try:
        _go(state)
    finally:
        state.goal = goal
    state.settle_nodes()
    state.reopen()


def _go(state: State) -> None:
    """Converts the model to the target versions, according to the plan."""
    refuses = state.options.unknown_domains == "refuse"
    if refuses and (unknown := imports.unknown(state.document)):
        raise state.refused(unknown)
    _plan(state)
    for domain, goal in sorted(state.goal.items()):
        for step in overdue.replace(state.document, state.adapters, domain, goal, state.stepper):
            state.boundaries = None
            done(state, step)
    for leg in _legs(state):
        for boundary in leg[_known(state, leg) :]:
            _cross(state, *boundary)
    if state.boundaries:
        state.last.state = state.fork()


def _known(state: State, leg: Boundaries) -> int:
    """Reuses the steps of another conversion of this model; returns the number of steps."""
    known, before = state.last.state, state.boundaries
    if known is None or known.boundaries is None or before is None:
        return 0
    same, budget = known.boundaries, state.options.node_budget
    begins = same[: len(before)] == before and (*before, *leg)[: len(same)] == same
    if not begins or (budget is not None and known.added > budget):
        return 0
    state.continue_from(known)
    return len(same) - len(before)


def _plan(state: State, left: Collection[Key] = ()) -> None:
    """Plans each step to the target versions, and the equivalent nodes used at the target."""
    state.plan = planner.of_document(state.document, state.adapters, state.goal, left)
    form_plan.plan_forms(state)


def _legs(state: State) -> Iterator[Boundaries]:
    """Yields the version changes of each domain; operators without a schema are replaced first."""
    for domain in sorted(state.goal):
        target = state.goal[domain]
        for version in request.present(state.document, domain):
            met = version != target or state.options.domains is not None
            roots = [r for r in state.document.roots if r.imports.get(domain) == version]
            if met and any(state.adapters.replaced(r, domain, version, target) for r in roots):
                state.boundaries = None
                yield ((domain, version, version),)
    # Downwards, ai.onnx is last, because other domains are rewritten in its newer operators.
    for domain in sorted(state.goal, reverse=True):
        target = state.goal[domain]
        present = request.present(state.document, domain)
        down = range(max(present, default=target), target, -1)
        yield tuple((domain, version, version - 1) for version in down)
        up = range(min(present, default=target), target)
        yield tuple((domain, version, version + 1) for version in up)


def _cross(state: State, domain: str, start: int, to: int) -> None:
    stepper = state.stepper(domain, start, to)
    stepper.goal, stepper.node_budget = state.goal[domain], state.options.node_budget
    stepper.added = state.added
    step = stepper.run()
    state.added = stepper.added
    done(state, step)
    if state.boundaries is not None:
        state.boundaries = (*state.boundaries, (domain, start, to))
