# SPDX-License-Identifier: Apache-2.0
"""A rule yields findings, which can be compared, counted and printed."""

from __future__ import annotations

import json

import pytest
from opshift.convert.legal.findings import (
    ERROR,
    INFO,
    UNJUDGED,
    WARNING,
    Finding,
    Findings,
    Phase,
    Rule,
    Unjudged,
)
from opshift.text import Role


def finding(level: str, text: str = "t", rule: str = "R", about: str = "a") -> Finding:
    return Finding(level, text, rule, frozenset(about.split()))


def test_a_rule_finds_sentences_named_sentences_and_nodes_that_it_cannot_judge():
    found = ["alone", (frozenset({"x"}), "named"), Unjudged("Neg 'y'", ValueError("no"))]
    rule = Rule("CODE", ERROR, Phase.AT_END, lambda subject: subject)
    message = "Neg 'y' cannot be judged: no"
    assert [*rule.findings(found)] == [
        Finding(ERROR, "alone", "CODE", frozenset({"alone"})),
        Finding(ERROR, "named", "CODE", frozenset({"x"})),
        Finding(WARNING, message, UNJUDGED, frozenset({message})),
    ]


def test_a_finding_is_one_line_for_any_names_in_the_file():
    found = ["a\n\x1bb", (frozenset({"x\n"}), "c\u2028"), Unjudged("Neg 'y'", ValueError("d\n"))]
    findings = Rule("CODE", ERROR, Phase.AT_END, lambda subject: subject).findings(found)
    assert [finding.text for finding in findings] == [
        "a\\n\\x1bb", "c\\u2028", "Neg 'y' cannot be judged: d\\n"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("levels", "fails", "fails_strictly"),
    [([], False, False), ([INFO], False, False), ([INFO, WARNING], False, True),
     ([WARNING, ERROR], True, True), ([ERROR], True, True)],
)  # fmt: skip
def test_errors_fail_and_warnings_if_the_caller_is_strict(levels, fails, fails_strictly):
    findings = Findings(tuple(map(finding, levels)))
    assert findings.fails(strict=False) == fails
    assert findings.fails(strict=True) == fails_strictly


def test_only_what_the_model_before_did_not_have_is_beyond_it():
    before = Findings((finding(ERROR, about="a"), finding(ERROR, about="b c", rule="S")))
    known = [finding(ERROR, "other words"), finding(WARNING, about="c", rule="S")]
    new = [
        finding(ERROR, about="a", rule="S"), finding(WARNING, about="b c d", rule="S"),
        finding(ERROR, rule="T"),
    ]  # fmt: skip
    after = Findings((*known, *new, finding(INFO, rule="T")))
    assert [*after.beyond(before)] == new
    assert after.beyond(after) == ()


def test_findings_have_a_form_for_programs():
    findings = Findings((finding(ERROR, "text", "RULE"),))
    document = json.loads(findings.to_json())
    assert document["kind"] == "check"
    assert document["findings"] == [{"level": "error", "rule": "RULE", "text": "text"}]
    text = findings.to_json()
    assert text.index('"findings"') < text.index('"kind"')
    assert text.startswith('{\n  "findings"')


@pytest.mark.parametrize(
    ("levels", "first", "role"),
    [
        ([], "Nothing is wrong.", Role.GOOD), ([INFO], "Nothing is wrong.", Role.GOOD),
        ([ERROR], "1 error.", Role.BAD), ([WARNING], "No errors, 1 warning.", Role.CAUTION),
        ([ERROR, ERROR, WARNING], "2 errors, 1 warning.", Role.BAD),
    ],
)  # fmt: skip
def test_the_first_line_counts_what_is_broken(levels, first, role):
    line, *rest = Findings(tuple(map(finding, levels))).lines()
    assert (line.text, line.role) == (first, role)
    assert [one.text for one in rest] == [f"  {level}: t" for level in levels]


def test_each_finding_has_a_line_and_several_names_one_more():
    findings = Findings((finding(ERROR, about="b a"), finding(INFO, about="a")))
    assert [(line.text, line.role, line.more) for line in findings.lines()][1:] == [
        ("  error: t", Role.BAD, False),
        ("    'a', 'b'", Role.FAINT, True),
        ("  info: t", Role.FAINT, False),
    ]
    assert [*findings.notes] == ["the model broke this rule before the conversion: t"] * 2
