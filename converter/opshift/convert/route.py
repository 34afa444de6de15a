# SPDX-License-Identifier: Apache-2.0
"""Makes the steps of a conversion in the right order."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from opshift.author import inference
from opshift.author.verdicts import LEAVE
from opshift.convert import planner, target_versions
from opshift.convert.blockers import StepRefused
from opshift.convert.end_checks import done
from opshift.convert.runtime import form_lacks, kernel_lacks, operator_lacks
from opshift.convert.state import Boundaries, State
from opshift.errors import AdapterBug, InvalidModel
from opshift.model import imports
from opshift.model.scope import FunctionId, Key, Place, Root
from opshift.opsets import schemas


def travel(state: State) -> None:
    """Converts the model to the target versions, through other versions first if needed."""
    state.left_late = leaves_late(state)
    if not state.left_late:
        _leave(state)
    _leave_if_possible(state)
    _visit_above(state, state.strategy.via_above)
    if state.strategy.via_below:
        state.goal.setdefault("", max(state.document.versions_of("")))
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
    opset = max(state.document.versions_of(""), default=0)
    goal = state.goal.get("", 0)
    if not 0 < opset < goal or state.strategy.leaves_first or state.visits:
        return False
    leaving = _left(state)
    return bool(leaving) and _lowest(state, leaving) <= goal


def _leave(state: State) -> None:
    """Replaces operators of domains that the result must not use by operators of ai.onnx.

    If the model's opset is too low for the replacements, the model is raised first and lowered
    afterwards.
    """
    allowed = state.options.domains
    target_versions.require_known_domains(state.document, allowed or ())
    leaving = _left(state)
    opsets = state.document.versions_of("")
    if allowed is not None and len(opsets) == 1:
        state.goal.setdefault("", opsets[0])
    _visit_above(state, _lowest(state, leaving))
    while leaving:
        _write_out(state, leaving)
        leaving = _left(state)


def _leave_if_possible(state: State) -> None:
    """Replaces operators that the runtime may lack by operators of ai.onnx, if possible."""
    opset = min(state.document.versions_of(""), default=0)
    written = True
    while written:
        leaving = _perhaps_lacked(state, opset)
        written = bool(leaving) and _write_out(state, leaving, needed=False)


def _write_out(state: State, leaving: Collection[Key], *, needed: bool = True) -> bool:
    """Replaces operators by ai.onnx operators if types are known; returns whether it did any.

    A rewrite may need the type of a value that another operator of `leaving` computes. The type is
    known only after the other operator is rewritten, so the caller repeats the call until no node
    is left. With `needed`, the function raises an error if it rewrote no node.
    """
    _plan(state, leaving)
    written, refused = False, []
    for domain in sorted({domain for domain, _ in leaving}):
        for version in state.document.versions_of(domain):
            if version < 1:
                raise InvalidModel(
                    f"the model imports {domain or 'ai.onnx'} {version}, but its versions begin"
                    " with 1; correct the opset_import"
                )
            stepper = state.stepper(domain, version, version)
            stepper.boundary = LEAVE
            stepper.left = frozenset(key for key in leaving if key[0] == domain)
            stepper.partial = True
            step = stepper.run()
            if stepper.blockers:
                refused.append(stepper.blockers.refused)
            if step.rewritten:
                written = state.repaired = True
                done(state, step)
    if written:
        state.sweep_and_sort()
        state.reopen()
    elif refused and needed:
        raise _joined(refused)
    elif needed:  # the caller would repeat the call for ever
        raise AdapterBug(f"no adapter replaces {', '.join(op for _, op in sorted(leaving))}")
    return written


def _joined(refused: Collection[StepRefused]) -> StepRefused:
    """Returns one exception with the refused nodes of several steps."""
    refusals = [refusal for step in refused for refusal in step.refusals]
    if not all(step.functions or step.unsure for step in refused):
        return StepRefused(refusals)
    sure = frozenset[FunctionId]().union(*(step.functions for step in refused))
    unsure = frozenset[FunctionId]().union(*(step.unsure for step in refused))
    return StepRefused(refusals, sure, unsure - sure)


def _left(state: State) -> frozenset[Key]:
    """Returns the operators of a model that must be rewritten in ai.onnx.

    Operators that the runtime lacks and that no adapter rewrites are not included; the final check
    refuses them.
    """
    allowed, release, facts = state.options.domains, state.runtime, state.facts
    failing, leaving = set[Key](), set[Key]()
    if release is not None:
        failing.update(key for key, _ in operator_lacks.unknown_fields(state.document, release))
        failing.update(key for _, key, _ in kernel_lacks.contrib_without_kernel(facts, release))
        for doubtful in (False, True):
            nodes = form_lacks.misread_nodes(facts, release, doubtful=doubtful)
            failing.update(
                key for key, form, _ in nodes if key[0] and not form.is_uncertain(release)
            )
    for key in {key for root in state.document.roots for key in root.index}:
        domain = key[0]
        strange = release is not None and (
            release.lacks(domain) or release.is_strange(key) or key in failing
        )
        lacked = strange and state.adapters.leaving(*key) is not None
        if lacked or (allowed is not None and domain not in allowed):
            leaving.add(key)
    return frozenset(leaving)


def _perhaps_lacked(state: State, opset: int) -> frozenset[Key]:
    """Returns operators that the runtime may lack and that ai.onnx can replace at this opset."""
    release = state.runtime
    if release is None:
        return frozenset()
    from opshift.opsets import targets

    roots = state.document.roots
    keys = {key for root in roots for key in root.index if release.lacks_facts_about(key[0])}
    owned = targets.owned() if keys else ()
    unseen = (key for key in keys if key[0] in owned and not release.ran(key))
    leaving = ((key, state.adapters.leaving(*key)) for key in unseen)
    return frozenset(key for key, adapter in leaving if adapter and adapter.since <= opset)


def _lowest(state: State, leaving: Collection[Key]) -> int:
    """Returns the lowest opset of ai.onnx in which all these operators can be rewritten."""
    adapters = filter(None, (state.adapters.leaving(*key) for key in leaving))
    return max((adapter.since for adapter in adapters), default=1)


def _visit_above(state: State, low: int) -> None:
    """Converts a model upwards to an opset that a later step needs; `travel` lowers it again."""
    opsets = state.document.versions_of("")
    if opsets and min(opsets) < low:
        state.goal.setdefault("", max(opsets))
        _visit(state, {"": max(low, *opsets)})


def _stop_between(state: State) -> None:
    """Stops at each opset on the way, so that the types of the whole model are inferred there."""
    present = max(state.document.versions_of(""), default=0)
    goal = state.goal.get("", present)
    for opset in range(present - 1, goal, -1) if goal < present else range(present + 1, goal):
        if opset >= inference.LOWEST:
            _visit(state, {"": opset})


def _visit(state: State, versions: dict[str, int]) -> None:
    """Converts the model to intermediate versions before the conversion to the target."""
    goal, state.goal = state.goal, versions
    try:
        _go(state)
    finally:
        state.goal = goal
    state.sweep_and_sort()
    state.reopen()


def _go(state: State) -> None:
    """Converts the model to the target versions, according to the plan."""
    refuses = state.options.unknown_domains == "refuse"
    if refuses and (unknown := imports.unknown(state.document)):
        raise state.refused(unknown)
    _plan(state)
    for domain, goal in sorted(state.goal.items()):
        for root in state.document.roots:
            version = root.imports.get(domain)
            if version is not None and version != goal:
                for key, end in _deprecated(state, root, domain, goal):
                    _replace_deprecated(state, root, key, end)
    for leg in _legs(state):
        for boundary in leg[_known(state, leg) :]:
            _cross(state, *boundary)
    if state.boundaries:
        state.last.state = state.fork()


def _deprecated(state: State, root: Root, domain: str, goal: int) -> list[tuple[Key, int]]:
    """Returns operators that are deprecated now and at the target, with the version since when."""
    deprecated = []
    for key in sorted(key for key in root.index if key[0] == domain):
        here, there = (schemas.schema(*key, at) for at in (root.imports[domain], goal))
        if here is None or not here.deprecated or there is None or not there.deprecated:
            continue
        if state.adapters.get(*key, here.since - 1, here.since) is not None:
            deprecated.append((key, here.since))
    return deprecated


def _replace_deprecated(state: State, root: Root, key: Key, end: int) -> None:
    """Converts the nodes of an operator that is deprecated since the version `end`.

    The conversion of a node starts at the last version that has the operator. A node that an
    adapter refuses stays.
    """
    domain, version = key[0], root.imports[key[0]]
    writers: dict[Place, str] = dict.fromkeys(root.index[key], "the model")
    for start in range(end - 1, version):
        stepper = state.stepper(domain, start, start + 1)
        try:
            step = stepper.run_at(root, writers)
        except StepRefused:
            if start >= end:  # the replacement exists, but cannot be converted further
                raise
            return
        writers |= step.touched
        touched, step.touched = step.touched, {}
        if start == version - 1:  # only after this step do the nodes match the imports
            step.touched = {(s, at): by for (s, at), by in writers.items() if at not in s.removed}
        elif not (touched or step.kept):
            continue
        state.boundaries = None
        done(state, step)


def _known(state: State, leg: Boundaries) -> int:
    """Reuses the steps of another conversion of this model; returns the number of steps."""
    last_state, before = state.last.state, state.boundaries
    if last_state is None or last_state.boundaries is None or before is None:
        return 0
    same, budget = last_state.boundaries, state.options.node_budget
    begins = same[: len(before)] == before and (*before, *leg)[: len(same)] == same
    if not begins or (budget is not None and last_state.added > budget):
        return 0
    state.continue_from(last_state)
    return len(same) - len(before)


def _plan(state: State, leaving: Collection[Key] = ()) -> None:
    """Plans each step to the target versions, and the equivalent nodes used at the target."""
    state.plan = planner.of_document(state.document, state.adapters, state.goal, leaving)
    state.plan_forms()


def _legs(state: State) -> Iterator[Boundaries]:
    """Yields the version changes of each domain; operators without a schema are replaced first."""
    for domain in sorted(state.goal):
        target = state.goal[domain]
        for version in state.document.versions_of(domain):
            met = version != target or state.options.domains is not None
            roots = [r for r in state.document.roots if r.imports.get(domain) == version]
            if met and any(state.adapters.replaced(r, domain, version, target) for r in roots):
                state.boundaries = None
                yield ((domain, version, version),)
    # Downwards, ai.onnx is last, because other domains are rewritten in its newer operators.
    for domain in sorted(state.goal, reverse=True):
        target = state.goal[domain]
        present = state.document.versions_of(domain)
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
