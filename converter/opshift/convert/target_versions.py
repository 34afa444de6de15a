# SPDX-License-Identifier: Apache-2.0
"""Resolves the versions that a conversion aims at. A runtime as target depends on the model."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from opshift import versions
from opshift.author.registry import Registry
from opshift.convert.legal import opening
from opshift.convert.other_words import OtherWords
from opshift.convert.runtime import kernel_lacks
from opshift.convert.state import State
from opshift.errors import BadTarget
from opshift.model.document import Document
from opshift.model.scope import Key
from opshift.opsets import schemas
from opshift.opsets.identity import span_around
from opshift.opsets.wanted import Wanted
from opshift.text import suggestion

if TYPE_CHECKING:
    from opshift.opsets.targets import RuntimeRelease


def set_goal(state: State) -> None:
    """Resolves the target versions and records them in the state."""
    target = state.options.target
    if state.options.minimal:
        state.goal = {domain: low for domain, (low, _) in spans(state.document).items()}
    elif isinstance(target, Wanted):
        _resolve_target(state, target)
        raised = target.raises(_present(state.document), state.goal)
        current = state.skeleton.ir_version
        ir = target.ir(state.options.ir_version, current, state.goal, raised=raised)
        if not isinstance(state.options.ir_version, int) and isinstance(ir, int):
            state.ir_limit = target.release.ir if target.release else None
        state.options = dataclasses.replace(state.options, ir_version=ir)
    else:
        state.goal = goal_of(state.document, target)
    for domain in state.goal:
        opening.known_versions(domain, state.document.versions_of(domain))


def versions_for(
    document: Document, target: Wanted, adapters: Registry, foreseen: Collection[Key] = ()
) -> tuple[dict[str, int], dict[str, int]]:
    """Returns the versions to convert to for a runtime, and the versions to visit on the way there.

    The versions depend on the operators of the model, and on the operators in `foreseen`, which a
    conversion may write.
    """
    operators = {key for root in document.roots for key in root.index}.union(foreseen)
    goal = goal_of(document, target.goal(_present(document), operators))
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
    return {d: max(document.versions_of(d)) for d in document.imports}


def ir_of_goal(state: State) -> int:
    """Returns the requested IR version, or the IR version that belongs to the target versions."""
    requested_ir = state.options.ir_version
    after = {**state.document.imports, **state.goal}
    return requested_ir if isinstance(requested_ir, int) else versions.ir_for(after)


def goal_of(document: Document, target: int | Mapping[str, int]) -> dict[str, int]:
    """Returns the target version of each domain; raises BadTarget for an invalid target."""
    requested = dict(target) if isinstance(target, Mapping) else {"": target}
    targets: dict[str, int] = {}
    for raw, version in requested.items():
        domain = schemas.normal(raw)
        shown = domain or "ai.onnx"
        if isinstance(version, bool) or not isinstance(version, int):
            raise BadTarget(f"the target of {shown} is {version!r}; give a whole number")
        if domain in targets and targets[domain] != version:
            raise BadTarget(
                f"the target has two versions of {shown}: {targets[domain]} and {version}; give one"
            )
        _in_range(domain, shown, version)
        if not any(domain in root.imports for root in document.roots):
            if domain or isinstance(target, Mapping):
                raise BadTarget(
                    f"the target names {shown}, which the model does not import; leave it out of"
                    " the target"
                )
            continue
        targets[domain] = version
    return targets


def require_known_domains(document: Document, allowed: Collection[str]) -> None:
    """Raises BadTarget for a name in the option `domains` that is probably mistyped."""
    domains = {*schemas.known().domains, *(d for root in document.roots for d in root.imports)}
    for domain in allowed:
        near = suggestion(domain, sorted(name or "ai.onnx" for name in domains))
        if domain not in domains and near:
            raise BadTarget(f"the domain {domain!r} is not known{near}")


def _in_range(domain: str, shown: str, version: int) -> None:
    newest = schemas.latest(domain)
    if newest is None:
        near = suggestion(shown, [domain or "ai.onnx" for domain in schemas.known_domains()])
        install = "install the package that describes the domain, or leave it out of the target"
        raise BadTarget(f"the versions of {shown!r} are not known{near or '; ' + install}")
    if version < 1:
        raise BadTarget(f"{shown} {version} does not exist; the versions of {shown} begin at 1")
    if version > newest and domain not in versions.DOMAINS:
        raise BadTarget(
            f"{shown} {version} is above {newest}, the newest version that is described; give a"
            " lower one"
        )
    if version > newest:
        release = versions.release_of(domain, version)
        installed = f"the installed onnx {versions.installed_name()}"
        is_there = version <= schemas.newest_installed(domain)
        absent = f"{installed} has it" if is_there else "no known release of onnx has it"
        brings = f"onnx {release.name} brings it" if release else absent
        # whether the installed onnx, not the database, is older
        short = newest < (schemas.known().newest(domain) or 0)
        who = installed if short else "opshift's operator database"
        cure = "onnx" if short and release else "opshift" if is_there else ""
        helps = f"give {newest} or a lower one" + (f", or install a newer {cure}" if cure else "")
        raise BadTarget(
            f"{shown} {version} is above {newest}, the newest in {who} ({brings}); {helps}"
        )


def spans(document: Document) -> dict[str, tuple[int, int]]:
    """Returns, for each known domain, the versions in which no operator of the model differs."""
    spans_by_domain: dict[str, tuple[int, int]] = {}
    for root in document.roots:
        for domain, version in root.imports.items():
            newest = schemas.latest(domain)
            if newest is not None:
                histories = (schemas.history(*key) for key in root.index if key[0] == domain)
                begins = [schema.since for history in histories for schema in history]
                low, high = spans_by_domain.get(domain, (1, newest))
                span = span_around(version, begins, newest)
                spans_by_domain[domain] = max(low, span[0]), min(high, span[1])
    return spans_by_domain
