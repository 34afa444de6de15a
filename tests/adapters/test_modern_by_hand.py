# SPDX-License-Identifier: Apache-2.0
"""No adapter writes the pattern of a formula that was written by hand."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator

import pytest
from opshift import AdapterBug, testing
from opshift.author import registry
from opshift.author.example import Example
from opshift.author.modern_rules import Modern
from opshift.author.registry import Registry
from opshift.author.verdicts import WORDS, Mirror, mirrors_of
from opshift.convert import mirror, modernize
from opshift.convert.api import convert_with_report
from opshift.opsets import schemas
from opshift.testing.modern_examples import modern_model

RULES = registry.default().each(Modern)
FINDS = [
    (rule, example)
    for rule, example in testing.modern_rules("opshift_adapters")
    if isinstance(rule, Modern) and example.gives == rule.op
]
BY_HAND = sorted({rule.op for rule in RULES})


def derivable(adapters: Registry, op: str) -> Iterator[Mirror]:
    """Returns all rules that could be derived from the adapters of an operator."""
    places = [(schema.since, schema.since - 1) for schema in schemas.history("", op)]
    for start, to in (*places, WORDS):
        down = adapters.get("", op, start, to)
        try:
            if down is not None:
                yield from (mirror for mirror in mirrors_of(down) if mirror.op == op)
        except AdapterBug:  # it is a claim
            continue


@functools.cache
def without_hand() -> Registry:
    """Returns a registry whose plans use derived rules only, so that each is derived once."""
    return registry.default().branch()


def derived(adapters: Registry, version: int) -> list[modernize.FormulaRule]:
    """Returns a rule set that contains only rules derived from adapters."""
    return [*derived_once(adapters, version)]


@functools.cache
def derived_once(adapters: Registry, version: int) -> tuple[modernize.FormulaRule, ...]:
    declared = adapters.each(Mirror)
    more = [one for op in BY_HAND for one in derivable(adapters, op)]
    return tuple(
        modernize.FormulaRule(one, term, tuple(param.name for param in schema.inputs))
        for one in (*declared, *more)
        if one.since <= version and (schema := schemas.schema("", one.op, one.since))
        for term in mirror.formulas(one, adapters)
    )


@pytest.mark.parametrize("rule", RULES, ids=[rule.source for rule in RULES])
def test_each_rule_by_hand_has_a_reason(rule: Modern) -> None:
    assert (inspect.getcomments(rule.run) or "").startswith("# not derived: ")


@pytest.mark.parametrize(
    ("rule", "example"),
    FINDS,
    ids=[f"{rule.source.rpartition('.')[2]}-{example.title}" for rule, example in FINDS],
)
def test_no_derived_rule_finds_it(
    rule: Modern, example: Example, monkeypatch: pytest.MonkeyPatch
) -> None:
    if rule.since > (schemas.latest("") or 0):
        pytest.skip("the installed onnx is older than the example")
    assert rule.op not in found_by_derived_rules(rule, example, monkeypatch)


def found_by_derived_rules(
    rule: Modern | Mirror, example: Example, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """Returns the operators that derived rules find in an example."""
    branch = without_hand()
    monkeypatch.setattr(registry, "default", lambda: branch)
    monkeypatch.setattr(modernize, "rules", derived)
    result = convert_with_report(
        modern_model(rule, example), modernize=True, allow_approximate=example.approximate
    )
    return [site.op for site in result.report.modernized]


@pytest.mark.parametrize("op", ["Gelu", "LayerNormalization"])
def test_derived_rules_find_what_they_are_derived_from(
    op: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If derived rules found nothing, no test of this file could fail."""
    model_of = {
        rule.op: (rule, example)
        for rule, example in testing.modern_rules("opshift_adapters")
        if isinstance(rule, Mirror) and example.gives == rule.op
    }
    assert op in found_by_derived_rules(*model_of[op], monkeypatch)


def test_every_rule_by_hand_has_an_example_that_it_alone_finds() -> None:
    assert {rule.source for rule, _ in FINDS} == {rule.source for rule in RULES}
