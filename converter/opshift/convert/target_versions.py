# SPDX-License-Identifier: Apache-2.0
"""Resolves the versions that a conversion aims at. A runtime as target depends on the model."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from opshift import versions
from opshift.author.registry import Registry
from opshift.convert import request
from opshift.convert.legal import opening
from opshift.convert.other_words import OtherWords
from opshift.convert.runtime import kernel_lacks
from opshift.convert.state import State
from opshift.model.document import Document
from opshift.model.scope import Key
from opshift.opsets.wanted import Wanted

if TYPE_CHECKING:
    from opshift.opsets.targets import RuntimeRelease


def set_goal(state: State) -> None:
    """Resolves the target versions and records them in the state."""
    target = state.options.target
    if state.options.minimal:
        state.goal = {domain: low for domain, (low, _) in request.spans(state.document).items()}
    elif isinstance(target, Wanted):
        _resolve_target(state, target)
        raised = target.raises(_present(state.document), state.goal)
        current = state.skeleton.ir_version
        ir = target.ir(state.options.ir_version, current, state.goal, raised=raised)
        if not isinstance(state.options.ir_version, int) and isinstance(ir, int):
            state.ir_limit = target.release.ir if target.release else None
        state.options = dataclasses.replace(state.options, ir_version=ir)
    else:
        state.goal = request.goal(state.document, target)
    for domain in state.goal:
        opening.known_versions(domain, request.present(state.document, domain))


def versions_for(
    document: Document, target: Wanted, adapters: Registry, foreseen: Collection[Key] = ()
) -> tuple[dict[str, int], dict[str, int]]:
    """Returns the versions to convert to for a runtime, and the versions to visit on the way there.

    The versions depend on the operators of the model, and on the operators in `foreseen`, which a
    conversion may write.
    """
    operators = {key for root in document.roots for key in root.index}.union(foreseen)
    goal = request.goal(document, target.goal(_present(document), operators))
    if (release := target.release) is None:
        return goal, {}
    words = OtherWords(adapters, release, goal.get("") or document.imports.get("") or 1)
    lacked = {key for key in operators if release.names(key)}
    at_goal = {key for key in lacked.difference(foreseen) if words.lead_from(key)}
    return goal, target.visits(goal, lacked - at_goal)


def _resolve_target(state: State, target: Wanted) -> None:
    """Sets the target versions for a runtime, which depend on the operators of the model."""
    state.goal, state.visits = versions_for(
        state.document, target, state.adapters, state.strategy.foreseen
    )
    if state.strategy.opset:
        state.goal[""] = state.strategy.opset
        state.visits.pop("", None)
    present = _present(state.document)
    release = target.release
    if release is None:
        return
    state.runtime = release
    state.lacked = kernel_lacks.kernels(state.facts, release)
    state.notes += remarks(release, present, state.goal)


def remarks(
    release: RuntimeRelease, present: Mapping[str, int], goal: Mapping[str, int]
) -> Iterator[str]:
    """Yields notes: how a runtime's release was chosen, and why its target version was raised."""
    if release.remark:
        yield release.remark
    for domain, floor in release.floors.items():
        if present.get(domain, floor) < floor == goal.get(domain):
            shown = domain or "ai.onnx"
            yield f"raised to {shown} {floor}: {release.shown} has no kernels for a lower version"


def _present(document: Document) -> dict[str, int]:
    return {d: max(request.present(document, d)) for d in document.imports}


def ir_of_goal(state: State) -> int:
    """Returns the requested IR version, or the IR version that belongs to the target versions."""
    requested_ir = state.options.ir_version
    after = {**state.document.imports, **state.goal}
    return requested_ir if isinstance(requested_ir, int) else versions.ir_for(after)
