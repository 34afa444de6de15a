# SPDX-License-Identifier: Apache-2.0
"""Functions that a release cannot load are inlined, and the verdict names the reason."""

from __future__ import annotations

import opshift
import pytest
from opshift.look.accepts import survey
from opshift.testing.model_text import parse_model

HEADER = '<ir_version: 8, opset_import: ["" : 16, "d" : 1]>'
FUNCTION = '<domain: "d", opset_import: ["" : 16]>'
PLAIN = f"""{HEADER} g (float[3] x) => (float[3] y) {{ y = d.f(x) }}
{FUNCTION} f (a) => (b) {{ b = Abs(a) }}"""
UNREAD = f"""{HEADER} g (float[3] x) => (float[3] y) {{ y = d.f(x, x) }}
{FUNCTION} f (a, k) => (b) {{ b = Abs(a) }}"""
BRANCHES = f"""{HEADER} g (float[3] x, bool c) => (float[3] y) {{ y = d.f(x, c) }}
{FUNCTION} f (a, c) => (b) {{
  b = If(c) <then_branch = t() => (p) {{ p = Abs(a) }}, else_branch = e() => (q) {{ q = Neg(a) }}>
}}"""


@pytest.mark.parametrize(
    ("text", "release", "reason"),
    [
        (PLAIN, "1.11", ""),
        (PLAIN, "1.14", ""),
        (UNREAD, "1.11", "load a function with an input that no node reads"),
        (UNREAD, "1.13", "load a function with an input that no node reads"),
        (UNREAD, "1.14", "load a function with an input that no node reads"),
        (UNREAD, "1.16", ""),
        (BRANCHES, "1.11", "load a function with a node that has a subgraph"),
        (BRANCHES, "1.14", ""),
    ],
)
def test_functions_that_a_release_does_not_load(text, release, reason):
    model = parse_model(text)
    verdict = opshift.accepts(model, f"onnxruntime=={release}")
    assert verdict.answer == ("no" if reason else "yes")
    assert reason in " ".join(map(str, verdict.reasons))
    result = opshift.convert(model, f"onnxruntime=={release}")
    assert bool(result.model.functions) == (not reason)
    assert result.report.runtime.answer == "yes"


@pytest.mark.parametrize("release", ["1.9", "1.10", "1.15"])
def test_a_release_that_rejects_some_functions(release):
    """The row does not name the functions, so a conversion inlines all of them."""
    model, name = parse_model(PLAIN.replace(": 16", ": 15")), f"onnxruntime=={release}"
    verdict = opshift.accepts(model, name)
    assert verdict.unknown == (
        f"whether {name} loads the functions 'f': it rejects some legal functions",
    )
    assert opshift.convert(model, name).report.runtime.answer == "yes"
    (fit,) = survey(model, [name]).fits
    assert (fit.now, fit.after) == ("not known", "yes")


def test_the_first_line_of_a_kept_result_that_does_not_run():
    text = '<ir_version: 8, opset_import: ["" : 11]> g (float[3] x) => (float[k] y) { y = Unique<sorted = 1>(x) }'
    report = opshift.convert(parse_model(text), "rknn-toolkit2==2.0", keep_unrunnable=True).report
    assert report.runtime.answer == "no"
    says = (
        "Converted, but rknn-toolkit2==2.0 cannot run it: rknn-toolkit2==2.0 does not read Unique"
    )
    assert next(report.lines()).text.startswith(says)
