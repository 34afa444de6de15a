# SPDX-License-Identifier: Apache-2.0
"""The list of rules for legal models, which a conversion and `opshift check` apply."""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
from collections.abc import Callable, Iterator

from opshift import collector, deprecation
from opshift.author import registry
from opshift.author.facts import Facts
from opshift.author.registry import Registry
from opshift.convert.change import Step
from opshift.convert.legal import (
    author_rules,
    checker,
    device_rules,
    graph_rules,
    inferred_part,
    ir_rules,
    model_rules,
    opening,
    tensor_rules,
    text_rules,
    value_rules,
    written_rules,
)
from opshift.convert.legal.findings import (
    ERROR,
    INFO,
    UNJUDGED,
    WARNING,
    Checked,
    Finding,
    Findings,
    Phase,
    Rule,
)  # fmt: skip
from opshift.errors import AdapterBug, InvalidModel
from opshift.model import repair, weights
from opshift.model.bytes import documents
from opshift.model.document import Document
from opshift.model.illegible import require_legible
from opshift.model.weights import Weights
from opshift.protos import ModelProto, isolation

RULES = (
    Rule("MISSING_IMPORT", ERROR, Phase.BEFORE_INFERENCE, model_rules.missing_imports),
    Rule("ATTRIBUTE_VALUE", ERROR, Phase.BEFORE_INFERENCE, author_rules.attributes),
    Rule("RECURSION", ERROR, Phase.BEFORE_INFERENCE, model_rules.recursion),
    Rule("DEFAULT_TYPE", ERROR, Phase.BEFORE_INFERENCE, graph_rules.defaults),
    Rule("SPARSE_NAME", ERROR, Phase.BEFORE_INFERENCE, graph_rules.sparse_names),
    Rule("UNKNOWN_IMPORT", ERROR, Phase.REJECTED, model_rules.unknown_imports),
    Rule("DEFINITION", ERROR, Phase.REJECTED, graph_rules.definitions, visits_all=True),
    Rule("OPERATOR", ERROR, Phase.REJECTED, graph_rules.operators, visits_all=True),
    Rule("TRAINING_NODE", ERROR, Phase.REJECTED, model_rules.training_nodes),
    Rule("WRITTEN_VALUE", ERROR, Phase.BEFORE_STEP, written_rules.values),
    Rule("WRITTEN_OPERATOR", ERROR, Phase.BEFORE_STEP, written_rules.written_schemas),
    Rule("WRITTEN_TYPE", ERROR, Phase.BEFORE_STEP, written_rules.types),
    Rule("STEP_NODE", ERROR, Phase.AFTER_STEP, lambda done: checker.rejected(*done)),
    Rule("SHADOWING", ERROR, Phase.AT_END, graph_rules.shadowing),
    Rule("FUNCTION_IMPORT", ERROR, Phase.AT_END, model_rules.function_imports),
    Rule("FIELD_ABOVE_IR", WARNING, Phase.CHECK_ONLY, model_rules.above_ir, infers=True),
    Rule("SKIPPED_ABOVE_IR", INFO, Phase.CHECK_ONLY, model_rules.skipped_above_ir, infers=True),
    Rule("UNSTATED_OPERATOR", INFO, Phase.CHECK_ONLY, graph_rules.unstated),
    *ir_rules.RULES,
    Rule("SHARDED_AXIS", WARNING, Phase.CHECK_ONLY, device_rules.axes, infers=True),
    Rule("ELEMENT_TYPE", ERROR, Phase.FAILED, model_rules.element_types, visits_all=True),
    Rule("INPUT_TYPE", ERROR, Phase.FAILED, graph_rules.input_types, visits_all=True, infers=True),
    Rule("OPERATOR_FLAW", WARNING, Phase.FAILED, author_rules.flaws, visits_all=True, infers=True),
    Rule("VENDOR_NODE", WARNING, Phase.CHECK_ONLY, graph_rules.vendor_nodes, infers=True),
    Rule("UNTYPED_ATTRIBUTE", ERROR, Phase.CHECK_ONLY, graph_rules.untyped_attributes),
    Rule("DEPRECATED", ERROR, Phase.CHECK_ONLY, model_rules.deprecated),
    Rule("EXPERIMENTAL", INFO, Phase.CHECK_ONLY, model_rules.experimental),
    Rule("TWO_MEANINGS", INFO, Phase.CHECK_ONLY, model_rules.two_meanings),
    Rule("SUBGRAPH_DEFAULT", ERROR, Phase.CHECK_ONLY, graph_rules.subgraph_defaults),
    Rule("NEGATIVE_SIZE", WARNING, Phase.CHECK_ONLY, value_rules.negative_sizes),
    Rule("EMPTY_DIMENSION", WARNING, Phase.CHECK_ONLY, value_rules.unnamed_dimensions),
    Rule("VALUE_TYPE", WARNING, Phase.CHECK_ONLY, value_rules.contents),
    Rule("VALUE_INFO_TYPE", WARNING, Phase.CHECK_ONLY, value_rules.recorded_twice),
    Rule("DIMENSION_SIZE", WARNING, Phase.CHECK_ONLY, value_rules.variables, infers=True),
    Rule("TENSOR_DATA", ERROR, Phase.CHECK_ONLY, tensor_rules.payloads),
    Rule("TENSOR_VALUE", WARNING, Phase.CHECK_ONLY, tensor_rules.values),
    Rule("ATTRIBUTE_TEXT", WARNING, Phase.CHECK_ONLY, text_rules.attributes),
    Rule("DOCUMENTATION", WARNING, Phase.CHECK_ONLY, text_rules.documentation),
    Rule("METADATA_FORM", INFO, Phase.CHECK_ONLY, model_rules.metadata_forms),
    Rule("EXTERNAL_DATA", ERROR, Phase.CHECK_ONLY, model_rules.data_files),
)
_OF_STEPS = (Phase.BEFORE_STEP, Phase.AFTER_STEP)
# onnx's checker runs despite findings of these rules
_BEYOND = frozenset(rule.code for rule in ir_rules.RULES)


def findings(phase: Phase, subject: object, *, visit_all: bool = True) -> Iterator[Finding]:
    """Yields the findings of all rules that belong to a phase."""
    for rule in RULES:
        if rule.phase is phase and (visit_all or not rule.visits_all):
            yield from rule.findings(subject)


def first_findings(phase: Phase, checked: Checked) -> Iterator[Finding]:
    """Yields the first finding of each rule of a phase, without failures of the rules."""
    for rule in RULES:
        judged = _judged(rule, checked) if rule.phase is phase else iter(())
        yield from itertools.islice((finding for finding in judged if finding.rule != UNJUDGED), 1)


def _judged(rule: Rule, checked: Checked) -> Iterator[Finding]:
    """Yields the findings of a rule; the last one may report that an author's function failed."""
    try:
        yield from rule.findings(checked)
    except AdapterBug as bug:
        text = f"{rule.code} cannot be judged: {bug}"
        yield Finding(WARNING, text, UNJUDGED, frozenset({text}))


def require_legal(document: Document, adapters: Registry, error: str | None) -> None:
    """Raises InvalidModel if the source model breaks a rule; `error` is the checker's error."""
    require_inferable(document, adapters)
    if error is None and not document.model.training_info:  # the checker skips training graphs
        return
    for finding in findings(Phase.REJECTED, Checked(document, adapters)):
        raise InvalidModel(finding.text)
    if error is not None and not checker.tolerates(document, adapters, error):
        raise InvalidModel(f"onnx's checker rejects the model: {error}")


def open_for_inference(model: ModelProto, adapters: Registry) -> Document:
    """Returns an indexed model; raises InvalidModel if onnx's inference cannot process it."""
    document = _opened(model)
    require_inferable(document, adapters)
    return document


def _opened(model: ModelProto) -> Document:
    """Returns an indexed model; raises InvalidModel if rules cannot be applied to the model."""
    opening.header(model)
    data = model.SerializeToString(deterministic=True)
    require_legible(data)
    document = Document(model)
    opening.survivable(model, data)
    return document


def require_inferable(document: Document, adapters: Registry) -> None:
    """Raises InvalidModel for a model that would crash onnx's inference."""
    for finding in findings(Phase.BEFORE_INFERENCE, Checked(document, adapters)):
        raise InvalidModel(finding.text)


def before_step(change: written_rules.WrittenNodes) -> None:
    """Raises AdapterBug if the nodes that an adapter wrote break a rule."""
    for finding in findings(Phase.BEFORE_STEP, change):
        raise AdapterBug(finding.text)


def after_step(document: Document, step: Step) -> None:
    """Raises AdapterBug if onnx's checker rejects a node that a step wrote or kept."""
    for finding in findings(Phase.AFTER_STEP, (document, step)):
        opsets = f"{step.domain or 'ai.onnx'} {step.start}->{step.to}"
        raise AdapterBug(f"after {opsets} the checker rejects {finding.text}")


def at_end(document: Document, adapters: Registry, *, visit_all: bool) -> Findings:
    """Returns the findings that a conversion compares between the source model and the result."""
    at_end_findings = findings(Phase.AT_END, Checked(document, adapters), visit_all=visit_all)
    return Findings(tuple(finding for finding in at_end_findings if finding.level != INFO))


def check(model: ModelProto | str | os.PathLike[str], *, isolate: bool | None = None) -> Findings:
    """Check a model and return every rule that it breaks.

    Parameters
    ----------
    model : ModelProto or path
        The model.
    isolate : bool, optional
        Call the C++ code of onnx in a child process, so that no model ends or hangs this process.
        By default the environment variable OPSHIFT_ISOLATE decides.

    Returns
    -------
    Findings
        `.found` has the findings, errors first. A model without findings is legal.

    Raises
    ------
    InvalidModel
        The file is not an ONNX model.
    TypeError
        The model is neither a ModelProto nor a path.
    OSError
        The file cannot be read.

    Examples
    --------
    >>> import opshift
    >>> opshift.check("model.onnx").fails(strict=False)
    False
    """
    with documents.beside(model), isolation.isolated(isolate):
        return _all_findings(model, registry.default())


@collector.paused()
def _all_findings(model: ModelProto | str | os.PathLike[str], adapters: Registry) -> Findings:
    if isinstance(model, ModelProto):
        skeleton, large_tensors = weights.carve_model(model)
    else:
        skeleton, large_tensors = weights.carve_file(model)
    upgraded = repair.before_opening(skeleton)
    try:
        document = _opened(skeleton)
    except InvalidModel as error:
        return Findings((Finding(ERROR, str(error), "INVALID_MODEL", frozenset({str(error)})),))
    view = weights.checkable(skeleton)
    all_findings = _found(Checked(document, adapters, None, large_tensors), lambda: view)
    all_findings += [Finding(INFO, text, "OLD_IR", frozenset({text})) for text in upgraded]
    legal = all(finding.level != ERROR for finding in all_findings if finding.rule not in _BEYOND)
    if legal and (message := _rejection(view, adapters)) is not None:
        # removes the node's name, because a conversion may rename it
        about = frozenset({_NODE.sub("", message)})
        text = f"onnx's checker rejects the model: {message}"
        all_findings.insert(0, Finding(ERROR, text, "CHECKER", about))
    order = [ERROR, WARNING, INFO]
    return Findings(
        tuple(sorted(dict.fromkeys(all_findings), key=lambda finding: order.index(finding.level)))
    )


def _rejection(view: bytes | ModelProto, adapters: Registry) -> str | None:
    """Returns the checker's error on a model, also if unknown operators hide the error."""
    return checker.whole(view, adapters, full=True) or inferred_part.hidden(view, adapters)


check_model = deprecation.renamed(check, "opshift.check_model", "opshift.check", "0.4.0")


def _found(checked: Checked, view: Callable[[], bytes | ModelProto]) -> list[Finding]:
    """Returns the findings of all rules on models; types are inferred only if onnx can run."""
    rules = [rule for rule in RULES if rule.phase not in _OF_STEPS]
    by_rule = {rule: list(_judged(rule, checked)) for rule in rules if not rule.infers}
    if not any(by_rule[rule] for rule in by_rule if rule.phase is Phase.BEFORE_INFERENCE):
        facts = Facts(checked.document, checked.weights or Weights(), checked.adapters, view)
        with_facts = dataclasses.replace(checked, facts=facts)
        by_rule |= {rule: list(_judged(rule, with_facts)) for rule in rules if rule.infers}
    return [finding for rule in rules for finding in by_rule.get(rule, ())]


_NODE = re.compile(r"\(op_type:[^)]*\): ")
