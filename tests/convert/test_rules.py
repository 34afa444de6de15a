# SPDX-License-Identifier: Apache-2.0
"""Rules are applied by phase; a broken rule gives an error or a finding."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from onnx import ModelProto
from opshift import AdapterBug, InvalidModel, check
from opshift.author import registry
from opshift.convert.change import Step
from opshift.convert.legal import checker, ir_rules, rules
from opshift.convert.legal.findings import ERROR, INFO, WARNING, Checked, Phase, Rule, Unjudged
from opshift.model.document import Document
from opshift.model.weights import Weights
from text_models import model

GOOD = "(float[2] x) => (float[2] y) { y = Neg(x) }"
UNDEFINED = "(float[2] x) => (float[2] y) { y = Neg(z) }"
RETIRED = "(float[2] x) => (float[2] y) <float[1] s = {1}> { y = Upsample(x, s) }"


def trained(proto: ModelProto) -> ModelProto:
    proto.training_info.add()
    return proto


def opened(proto: ModelProto) -> Document:
    return Document(proto, "opshift_")


def broken(proto: ModelProto, error: str | None) -> str:
    """Returns the message of the refusal; empty if the model is legal."""
    try:
        rules.require_legal(opened(proto), registry.default(), error)
    except InvalidModel as invalid:
        return str(invalid)
    return ""


@pytest.mark.parametrize(
    ("proto", "error", "sentence"),
    [
        (model(UNDEFINED, 13), None, ""),  # nothing was rejected
        (trained(model(UNDEFINED, 13)), None, "'z'"),  # the checker does not look at training
        (trained(model(GOOD, 13)), None, ""),
        (model(UNDEFINED, 13), "no", "'z'"),
        (model(GOOD, 13), "no", "onnx's checker rejects the model: no"),
        (model(RETIRED, 10), "Upsample is deprecated", ""),
    ],
)
def test_a_rejected_model_is_refused_for_the_first_rule_that_it_breaks(
    proto: ModelProto, error: str | None, sentence: str
) -> None:
    messages = broken(proto, error)
    assert sentence in messages
    assert bool(messages) == bool(sentence)


def test_a_step_names_its_domain_and_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checker, "rejected", lambda document, step: iter(["Neg 'y': no"]))
    for domain, shown in (("", "ai.onnx"), ("acme", "acme")):
        with pytest.raises(AdapterBug, match=f"after {shown} 13->12 the checker rejects Neg 'y'"):
            rules.after_step(opened(model(GOOD, 13)), Step(domain, 13, 12))


def stated(level: str, phase: Phase, *found: Any, code: str = "CODE") -> Rule:
    return Rule(code, level, phase, lambda checked: iter(found))


def failing(checked: Checked) -> Iterable[str]:
    raise AdapterBug("trip")


def test_the_first_finding_of_each_rule_of_a_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    at = Phase.FAILED
    listed = (
        stated(ERROR, at, "a", "b"), stated(ERROR, Phase.AT_END, "c"),
        stated(WARNING, at, Unjudged("Neg 'y'", ValueError()), "d"),
        Rule("FAILS", ERROR, at, failing),
    )  # fmt: skip
    monkeypatch.setattr(rules, "RULES", listed)
    checked = Checked(opened(model(GOOD, 13)), registry.default())
    assert [finding.text for finding in rules.first_findings(at, checked)] == ["a", "d"]


def test_the_objection_of_the_checker_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """onnx's checker checks the model, whose only faults concern its IR version."""
    code, asked = ir_rules.RULES[0].code, list[bool]()
    listed = (
        stated(ERROR, Phase.CHECK_ONLY, "e", code=code), stated(INFO, Phase.CHECK_ONLY, "i"),
    )  # fmt: skip
    monkeypatch.setattr(rules, "RULES", listed)
    monkeypatch.setattr(checker, "whole", lambda *given, full: asked.append(full) or "no")
    texts = [finding.text for finding in check(model(GOOD, 13)).found]
    assert texts == ["onnx's checker rejects the model: no", "e", "i"]
    assert asked == [True]


def test_a_conversion_compares_errors_and_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = [stated(level, Phase.AT_END, level) for level in (INFO, WARNING, ERROR)]
    monkeypatch.setattr(rules, "RULES", listed)
    found = rules.at_end(opened(model(GOOD, 13)), registry.default(), visit_all=True).found
    assert [one.text for one in found] == [WARNING, ERROR]


@pytest.mark.parametrize(
    ("phase", "expected"), [(Phase.BEFORE_INFERENCE, ["a"]), (Phase.AT_END, ["a", "b"])]
)
def test_types_are_inferred_unless_a_rule_forbids_it(
    phase: Phase, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = Rule("TYPED", ERROR, Phase.CHECK_ONLY, lambda checked: ["b"], infers=True)
    monkeypatch.setattr(rules, "RULES", (stated(ERROR, phase, "a"), typed))
    assert [finding.text for finding in check(model(GOOD, 13)).found] == expected


@pytest.mark.parametrize("weights", [None, Weights()])
def test_types_are_inferred_with_the_weights_of_the_model(
    weights: Weights | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Weights] = []
    facts: Callable[..., Any] = rules.Facts

    def seen(document: Document, weights: Weights, *others: Any) -> Any:
        given.append(weights)
        return facts(document, weights, *others)

    monkeypatch.setattr(rules, "Facts", seen)
    proto = model(GOOD, 13)
    assert (
        rules._found(Checked(opened(proto), registry.default(), None, weights), lambda: proto) == []
    )
    (used,) = given
    assert isinstance(used, Weights)
    assert weights is None or used is weights
