# SPDX-License-Identifier: Apache-2.0
"""Values inside of subgraphs and functions are compared by models of the nodes around them."""

from __future__ import annotations

import onnx
import pytest
from click.testing import CliRunner
from opshift.cli.entry import main
from opshift.convert.api import convert_with_report
from opshift.testing.model_text import parse_model
from opshift.verify import verify

HEADER = '<ir_version: 10, opset_import: ["" : 20{more}]>\n'
NUMBERS = "<float r = {1.4142135}, float one = {1}, float half = {0.5}>"
GELU = "d = Div(x, r) e = Erf(d) a = Add(e, one) m = Mul(x, a) k = Mul(m, half)"
# The condition is never true, so no output shows what the branch computes.
DEAD_BRANCH = f"""g (float[2,3] x) => (float[2,3] y) {NUMBERS} {{
    never = Constant<value = bool {{0}}>()
    y = If (never) <then_branch = t () => (float[2,3] k) {{ {GELU} }},
                    else_branch = f () => (float[2,3] other) {{ other = Neg(x) }}>
}}"""
LOOP = f"""g (float[2,3] start) => (float[2,3] y) {NUMBERS} {{
    count = Constant<value = int64 {{3}}>()
    y = Loop (count, , start) <body = b (int64 i, bool c, float[2,3] x) => (bool on, float[2,3] z)
        {{ on = Identity(c) {GELU} z = Neg(k) }}>
}}"""
SCALED_OUTSIDE = """g (bool c, float[2,3] x) => (float[2,3] y) <float two = {2}> {
    s = Exp(x) r = Sqrt(two)
    y = If (c) <then_branch = t () => (float[2,3] k) { h = Div(s, r) k = Mul(h, s) },
                else_branch = f () => (float[2,3] other) { other = Neg(x) }>
}"""
FUNCTION = f"""g (float[2,3] x) => (float[2,3] y) {{ y = com.acme.F(x) }}
<domain: "com.acme", opset_import: ["" : 20]>
F (x) => (k) <float[2,3] x> {{
    r = Constant<value_float = 1.4142135>() one = Constant<value_float = 1.0>()
    half = Constant<value_float = 0.5>()
    {GELU}
}}"""


def model(text: str, more: str = "") -> onnx.ModelProto:
    return parse_model(HEADER.replace("{more}", more) + text)


def rows_of(a: onnx.ModelProto, b: onnx.ModelProto) -> set[tuple[str, str]]:
    verification = verify(a, b, values=["k"], isolated=False)
    return {(row.output, row.outcome) for row in verification.rows}


@pytest.mark.parametrize(
    ("text", "more"),
    [(DEAD_BRANCH, ""), (LOOP, ""), (FUNCTION, ', "com.acme" : 1')],
    ids=["a branch that never runs", "a loop", "a function"],
)
def test_the_modern_node_is_compared_in(text, more):
    before = model(text, more)
    result = convert_with_report(before, modernize=True)
    assert [site.value for site in result.report.modernized] == ["k"]
    assert rows_of(before, result.model) == {("y", "equal"), ("k", "equal")}


@pytest.mark.parametrize("text", [DEAD_BRANCH, LOOP], ids=["a branch", "a loop"])
def test_a_wrong_node_is_seen_where_no_output_shows_it(text):
    before = model(text)
    wrong = convert_with_report(before, modernize=True).model
    graph = wrong.graph.node[-1].attribute[0].g
    gelu = next(node for node in graph.node if node.op_type == "Gelu")
    gelu.attribute.append(onnx.helper.make_attribute("approximate", "tanh"))
    assert ("k", "different") in rows_of(before, wrong)


def test_constants_of_the_graph_around_are_computed_and_other_values_are_given():
    # What both models name h would be given to both.
    other = SCALED_OUTSIDE.replace("h = ", "p = ").replace("Mul(h, s)", "Mul(p, s)")
    before, wrong = model(SCALED_OUTSIDE), model(other.replace("{2}", "{3}"))
    assert ("k", "equal") in rows_of(before, model(other))
    assert ("k", "different") in rows_of(before, wrong)


def test_a_value_of_unknown_type_is_not_called_equal():
    text = """g (seq(float[2]) s, bool c) => (float[2] y) {
        n = Constant<value = int64 {0}>()
        y = If (c) <then_branch = t () => (float[2] k) { q = com.acme.Any(s) k = Neg(q) },
                    else_branch = f () => (float[2] other) { other = SequenceAt(s, n) }>
    }"""
    a = model(text, ', "com.acme" : 1')
    verification = verify(a, a, values=["k"], isolated=False)
    assert not verification.equal


def test_the_command_writes_nothing_if_a_nested_value_differs(tmp_path, monkeypatch):
    from opshift.verify import inner_values
    from opshift.verify.verification import DIFFERENT, Row

    monkeypatch.setattr(inner_values, "_rows", lambda *_: [Row("nodes", "k", DIFFERENT, "by 1")])
    onnx.save(model(DEAD_BRANCH), tmp_path / "a.onnx")
    words = ["convert", str(tmp_path / "a.onnx"), "-o", str(tmp_path / "b.onnx")]
    done = CliRunner().invoke(main, [*words, "--modernize", "--verify"])
    assert done.exit_code != 0
    assert not (tmp_path / "b.onnx").exists()
