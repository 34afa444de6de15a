# SPDX-License-Identifier: Apache-2.0
"""Checks a whole model with onnx: the result, and on request the model after each step."""

from __future__ import annotations

from collections.abc import Iterable

from opshift.author.facts import Facts
from opshift.convert.blockers import StepRefused
from opshift.convert.change import Step
from opshift.convert.legal import checker, diagnose, inferred_part, nested_lengths, rules
from opshift.convert.state import State
from opshift.errors import AdapterBug, FaultyChange, InvalidModel
from opshift.model import imports, repair, weights
from opshift.model.functions import functions_of, inline_functions
from opshift.model.scope import FunctionId
from opshift.opsets import schemas
from opshift.protos.copies import copied
from opshift.text import shortened


def done(state: State, step: Step) -> None:
    """Records a step; with `check="full"`, onnx checks the whole model after the step."""
    state.done(step)
    if state.options.check == "full":
        check_fully(state, step)


def check_fully(state: State, step: Step) -> None:
    """Checks the whole model after a step with onnx's full check; the nodes are sorted first."""
    shown = weights.checkable(checker.in_order(state.document), weights=state.weights)
    error = checker.lenient(shown, state.adapters, full=True)
    if error is None or _namesakes(state):
        return
    if _objected_before(state, checker.lenient(state.view, state.adapters, full=True)):
        return
    if nested_lengths.drop_contradicted(copied(shown), state.adapters):
        return  # the final check drops declarations that are still contradicted, with a note
    if notes := corrected(state.facts):
        state.notes += notes
        return check_fully(state, step)
    if not checker.tolerates(state.document, state.adapters, error):
        suspect = next(iter(step.suspects), None)
        origin = f"; the fault first appears in the nodes that {suspect.text}" if suspect else ""
        contradiction = diagnose.declarations(state.view, shown, error, state.adapters)
        if contradiction and not (suspect and suspect.inferred):
            raise InvalidModel(contradiction + origin)
        if suspect:
            bug = f"the checker rejects the model: {error}{origin}"
            raise FaultyChange(bug, suspect.depends_on)
        if not step.rewritten:
            raise InvalidModel(
                f"onnx's checker rejects the model at {step.domain or 'ai.onnx'} {step.to},"
                f" although no node changed: {error}; correct the model, or report it if a runtime"
                " runs it"
            )
        by = ", ".join(sorted({f"{rewrite.adapter} on {rewrite.op}" for rewrite in step.rewritten}))
        raise FaultyChange(
            f"after {step.domain or 'ai.onnx'} {step.start}->{step.to} the checker rejects the"
            f" model: {error}; this step wrote nodes by {by or 'no adapter'}"
        )


def check_whole(state: State) -> list[str]:
    """Checks the whole result; errors that onnx also reports for the source model become notes."""
    full = state.options.check == "full"
    findings = rules.at_end(state.document, state.adapters, visit_all=full)
    for finding in findings.beyond(state.broken):
        raise AdapterBug(f"the converted model breaks a rule: {finding.text}")
    result = weights.checkable(state.skeleton, weights=state.weights)
    error = checker.lenient(result, state.adapters, full=True)
    if error is None:
        return []
    structure = checker.lenient(result, state.adapters, full=False)
    if structure is None and repair.remove_shapes(state.skeleton, state.typed):
        named = repair.first_names(state.typed)
        note = f"the shape that was added to {named} does not fit the result and was removed"
        return [note, *check_whole(state)]
    before = checker.lenient(state.view, state.adapters, full=True)
    objected = structure is None and _objected_before(state, before)
    # if the source has the same fault, no shape is wrong only because of the conversion
    if structure is None and not objected:
        wrong = nested_lengths.drop_contradicted(state.skeleton, state.adapters)
        if wrong:
            named = shortened(wrong, 4)
            return [f"removed declared shapes that inference contradicts: {named}"]
    if structure is None and (notes := corrected(state.facts)):
        return [*notes, *check_whole(state)]
    if objected:
        return [f"type inference rejects the model, as it did before the conversion: {error}"]
    if checker.tolerates(state.document, state.adapters, error):
        return [
            f"the checker rejects an operator that the model had before the conversion: {error}"
        ]
    if namesakes := _namesakes(state):
        raise StepRefused([], namesakes)
    if contradiction := diagnose.declarations(state.view, result, error, state.adapters):
        raise InvalidModel(contradiction)
    if structure is None and before is not None:
        raise InvalidModel(f"{before}; the check at a later opset reports: {error}")
    raise AdapterBug(f"the checker rejects the converted model: {error}")


def corrected(facts: Facts) -> list[str]:
    """Corrects declared shapes that contradict inferred shapes; returns a note about them."""
    if not (names := facts.correct()):
        return []
    named = repair.first_names(names)
    return [f"corrected the declared shapes of {named}, which contradict the inputs"]


def _objected_before(state: State, error: str | None) -> bool:
    """Returns whether onnx also rejects the source, or rejects a function named like an operator.

    `error` is the error that onnx reports for the source model. An error about an operator that the
    opset lacks does not count, because the error is not about types. But it may hide errors about
    types, and these count.
    """
    if error and not checker.is_of_operators(error):
        return True
    if inferred_part.types(state.view, state.adapters) is not None:
        return True
    model = copied(state.view)
    versions, functions = imports.versions(model), functions_of(model)
    hidden = [
        key
        for key in _named_like_operators(functions)
        if imports.versions(functions[key]).items() <= versions.items()
    ]
    # inference would treat calls of these functions as operators
    inline_functions(model, hidden, state.document.fresh)
    return bool(hidden and checker.lenient(model, state.adapters, full=True))


def _namesakes(state: State) -> frozenset[FunctionId]:
    """Returns functions named like operators; they are inlined, as inference confuses them."""
    return frozenset(_named_like_operators(state.document.functions))


def _named_like_operators(functions: Iterable[FunctionId]) -> list[FunctionId]:
    return [key for key in functions if schemas.history(*key[:2])]
