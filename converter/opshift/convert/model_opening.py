# SPDX-License-Identifier: Apache-2.0
"""Opens a model for a conversion: validates it, repairs faults that runtimes accept, indexes it."""

from __future__ import annotations

import itertools

from opshift.author import safe_inference
from opshift.author.registry import Registry
from opshift.convert import implied_import
from opshift.convert.legal import checker, model_rules, opening, rules
from opshift.convert.legal.findings import Checked
from opshift.convert.state import State
from opshift.model import functions, imports, repair, unique_names, weights
from opshift.model.bytes.outline import Content, read_as
from opshift.model.document import Document
from opshift.model.illegible import require_legible
from opshift.model.scope import shown_function
from opshift.protos import ModelProto


def mend_header(model: ModelProto, adapters: Registry) -> list[str]:
    """Adds an unambiguous import of ai.onnx to a model without imports; returns the notes."""
    return repair.before_opening(model) + implied_import.add(model, adapters)


def mend_imports(model: ModelProto, adapters: Registry) -> None:
    """Adds every unambiguous missing import, to inspect a model without converting it."""
    mend_header(model, adapters)
    implied_import.add_domains(model, adapters)


def open_header(state: State) -> None:
    """Repairs and validates the header of a model."""
    notes = mend_header(state.skeleton, state.adapters)
    opening.header(state.skeleton)
    notes += imports.merge(state.skeleton)
    state.notes += notes
    state.repaired |= bool(notes)


def open_content(state: State) -> None:
    """Inlines the functions of the strategy, then validates the model and indexes it."""
    notes = repair.bare_initializers(state.skeleton)
    state.notes += notes
    state.repaired |= bool(notes)
    data = state.skeleton.SerializeToString(deterministic=True)
    if state.options.checks:
        require_legible(data)
    prefix = state.new_prefix(data)
    _inline(state, prefix)
    inlined = bool(state.strategy.inlined)
    if state.options.checks:
        opening.survivable(state.skeleton, data)
    if weights.EXTERNAL_FIELD in data and read_as(Content, data).external:
        opening.external_data(state.skeleton)
    state.view = weights.checkable(state.skeleton, b"" if inlined else data, state.weights)
    error = checker.whole(state.view, state.adapters, full=False) if state.options.checks else None
    if error is not None:
        opening.sparse_indices(state.skeleton)
        _repair(state)
        error = checker.lenient(state.view, state.adapters, full=False)
    state.document = Document(state.skeleton, prefix)
    state.base = state.view
    state.document.has_written = inlined
    state.came_at = state.document.imports.get("") or 0
    if state.options.checks:
        rules.require_legal(state.document, state.adapters, error)
        visit_all = state.options.check == "full"
        state.broken = rules.at_end(state.document, state.adapters, visit_all=visit_all)
        state.notes += state.broken.notes
        checked = Checked(state.document, state.adapters)
        state.notes += (*model_rules.experimental(checked), *model_rules.two_meanings(checked))
    state.infer_again(b"" if inlined or state.repaired else data)


def _inline(state: State, prefix: str) -> None:
    numbers = itertools.count()
    called = functions.inline_functions(
        state.skeleton, state.strategy.inlined, lambda hint: f"{prefix}f{next(numbers)}_{hint}"
    )
    for which in state.strategy.inlined:
        if which in called:
            state.inlined.append(which)
        else:
            name = shown_function(which)
            state.notes.append(f"removed the function {name}, because nothing called it")


def _repair(state: State) -> None:
    """Repairs faults that runtimes accept and onnx rejects."""
    done = implied_import.add_domains(state.skeleton, state.adapters)
    done += repair.rejected(state.skeleton, state.weights)
    rules.require_inferable(Document(state.skeleton), state.adapters)
    state.typed = repair.add_types(state.skeleton, lambda: _typed(state))
    if state.typed:
        named = repair.first_names(state.typed)
        done.append(f"added the inferred type or shape of {named}, which had none")
    if repair.sort_nodes(state.skeleton):
        done.append(repair.SORTED)
    if done:
        state.repaired = True
        state.notes += done
        state.view = weights.checkable(state.skeleton, weights=state.weights)
    state.notes += repair.left_vague(state.skeleton)


def rename_repeated(state: State) -> None:
    """Renames values of subgraphs with the name of an outer value, because inference mixes them.

    A model that keeps its versions keeps its names.
    """
    goal, roots = state.goal, state.document.roots
    imported = (item for root in roots for item in root.imports.items())
    if all(len(root.scopes) == 1 for root in roots) or all(
        goal.get(domain, version) == version for domain, version in imported
    ):
        return
    names = list(dict.fromkeys(unique_names.make_unique(state.skeleton)))
    if names:
        state.repaired = True
        state.notes.append(
            f"renamed {repair.first_names(names)} in subgraphs, because outer graphs have other"
            " values of the same name"
        )
        state.view = state.base = weights.checkable(state.skeleton, weights=state.weights)
        state.index()


def _typed(state: State) -> ModelProto | None:
    """Returns the model with inferred types, or None if inference rejects the model."""
    try:
        return safe_inference.infer(
            weights.checkable(state.skeleton, weights=state.weights), state.adapters, data_prop=True
        )
    except safe_inference.COMPLAINTS:
        return None
