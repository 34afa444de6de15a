# SPDX-License-Identifier: Apache-2.0
"""Assumptions of a caller: the result uses them, and the report lists each use."""

from __future__ import annotations

import json
import random

import numpy as np
import onnx
import opshift
import pytest
from click.testing import CliRunner
from onnx import parser
from opshift import BadTarget, Refused, codes, terms
from opshift.assumptions import NAMES, Assumption
from opshift.cli.entry import main
from opshift.verify import oracle

HEAD = '<ir_version: 9, opset_import: ["" : 19]> g '
COMPUTED = HEAD + "(float[N,4] x, int64[k] s) => (float[a,b] y) { y = Reshape<allowzero=1>(x, s) }"
ALLOWED = {"assume": ["no-zero-dims"]}


def computed() -> onnx.ModelProto:
    return parser.parse_model(COMPUTED)


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def test_a_reshape_is_one_reshape_and_the_report_states_the_assumption():
    result = opshift.convert(computed(), 13, **ALLOWED)
    assert operators(result.model) == ["Reshape"]
    assert not result.model.graph.node[0].attribute
    assert result.report.assumptions == (
        "Reshape 'y': no dimension of a tensor is 0 (no-zero-dims)",
    )
    assert "assumed: Reshape 'y'" in str(result.report)
    assert opshift.Report.from_json(result.report.to_json()) == result.report


def test_nothing_is_assumed_unless_it_is_allowed():
    result = opshift.convert(computed(), 13)
    assert len(operators(result.model)) > 1
    assert result.report.assumptions == ()


@pytest.mark.parametrize("seed", range(40))
def test_the_results_are_equal_where_the_assumption_holds(seed):
    rng = random.Random(seed)
    own = [rng.randint(1, 4) for _ in range(rng.randint(1, 3))]
    goal = [int(np.prod(own[:cut])) for cut in (rng.randint(0, len(own)),)]
    goal.append(int(np.prod(own)) // goal[0])
    goal += [1] * rng.randint(0, 1)
    if rng.random() < 0.5:
        goal[rng.randrange(len(goal))] = -1
    symbols = ",".join("NMK"[i] if rng.random() < 0.5 else str(n) for i, n in enumerate(own))
    before = parser.parse_model(
        f"{HEAD} (float[{symbols}] x, int64[k] s) => (float[{','.join('abc'[: len(goal)])}] y)"
        " { y = Reshape<allowzero=1>(x, s) }"
    )
    inputs = {
        "x": np.arange(np.prod(own), dtype=np.float32).reshape(own),
        "s": np.array(goal, np.int64),
    }
    after = opshift.convert_version(before, rng.choice([6, 9, 13]), **ALLOWED)
    assert operators(after) == ["Reshape"]
    (expected,), (actual,) = oracle.evaluate(before, inputs), oracle.evaluate(after, inputs)
    np.testing.assert_array_equal(expected, actual)


@pytest.mark.parametrize("x", ["float[0,4]", "float[N,0]"])
def test_a_shape_that_contradicts_it_is_believed(x):
    model = parser.parse_model(COMPUTED.replace("float[N,4]", x))
    result = opshift.convert(model, 13, **ALLOWED)
    assert result.report.assumptions == ()
    assert result.model == opshift.convert_version(model, 13)


def test_a_wanted_0_contradicts_it():
    text = (
        HEAD
        + "(float[N,4] x) => (float[a,b] y) <int64[2] s = {0, 7}> { y = Reshape<allowzero=1>(x, s) }"
    )
    model = parser.parse_model(text)
    result = opshift.convert(model, 13, **ALLOWED)
    assert result.report.assumptions == ()
    assert result.model == opshift.convert_version(model, 13)


def test_a_function_and_a_graph_inside_of_a_node_may_rely_on_it():
    own = '< domain: "f", opset_import: ["" : 19] > R (x, s) => (y) { y = Reshape<allowzero=1>(x, s) }'
    body = "{ y = If(c) <then_branch = t () => (float[a,b] u) { u = Reshape<allowzero=1>(x, s) }, else_branch = e () => (float[a,b] v) { v = f.R(x, s) }> }"
    model = parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 19, "f" : 1]> g (float[N,4] x, int64[2] s, bool c) => (float[a,b] y) {body} {own}'
    )
    result = opshift.convert(model, 13, **ALLOWED)
    assert len(result.report.assumptions) == 2
    onnx.checker.check_model(result.model)


def test_a_refusal_names_the_option_that_avoids_it():
    with pytest.raises(Refused, match=r'give `assume=."no-zero-dims".`') as told:
        opshift.convert_version(computed(), 6)
    assert told.value.refusals[0].as_dict()["cure"] == Assumption.NO_ZERO_DIMS.cure
    assert operators(opshift.convert_version(computed(), 7, **ALLOWED)) == ["Reshape"]


def test_a_refusal_that_the_option_does_not_avoid_is_not_blamed_on_it():
    with pytest.raises(Refused) as told:
        opshift.convert_version(computed(), 4, **ALLOWED)
    assert "no-zero-dims" not in str(told.value)


def test_plan_and_lowest_take_it():
    assert not opshift.plan(computed(), 6).possible
    planned = opshift.plan(computed(), 7, **ALLOWED)
    assert planned.possible
    assert "assumed: Reshape 'y'" in str(planned)
    assert len(planned.as_dict()["assumptions"]) == 1
    assert opshift.lowest_versions(computed())[""].lowest == 7
    assert opshift.lowest_versions(computed(), **ALLOWED)[""].lowest == 5


@pytest.mark.parametrize("assume", ["no-zero-dims", ["no-zeros"], [0]])
def test_what_cannot_be_assumed_is_a_bad_target(assume):
    with pytest.raises(BadTarget, match="no-zero-dims"):
        opshift.convert_version(computed(), 13, assume=assume)


@pytest.mark.parametrize("assumption", Assumption, ids=lambda one: one.value)
def test_every_assumption_has_a_page_and_a_name(assumption):
    assert assumption.value == assumption.name.lower().replace("_", "-")
    assert f'assume=["{assumption.value}"]' in codes.page(assumption.name).cure
    with terms.called_by(terms.Caller.COMMAND):
        assert f"--assume {assumption.value}" in codes.page(assumption.name).cure
    assert assumption.value in NAMES
    assert assumption.clause


@pytest.mark.parametrize("words", [["--assume", "no-zero-dims"], []])
@pytest.mark.parametrize("verb", ["convert", "plan", "batch"])
def test_every_verb_and_the_settings_file_take_it(verb, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    onnx.save(computed(), "m.onnx")
    if not words:
        (tmp_path / "opshift.toml").write_text('assume = ["no-zero-dims"]\n')
    dry = [] if verb == "plan" else ["--dry-run"]
    run = [verb, "m.onnx", "--to", "7", "--output-format", "json", *dry, *words]
    done = CliRunner().invoke(main, run)
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document.get("assumptions") if verb != "batch" else document["fates"]["ok"] == 1


@pytest.mark.parametrize("shape", ["(float[2,3] x, int64[2] s) => (float[a,b] y)",
                                   "(float[N] x) => (float[2,b] y) <int64[2] s = {2, -1}>"])  # fmt: skip
def test_a_reshape_that_meets_no_zero_relies_on_nothing(shape):
    text = f"{shape} {{ y = Reshape<allowzero=1>(x, s) }}"
    proto = parser.parse_model(f'<ir_version: 8, opset_import: ["": 14]> g {text}')
    plain, allowed = opshift.convert(proto, 13), opshift.convert(proto, 13, **ALLOWED)
    assert plain.model == allowed.model
    assert allowed.report.assumptions == ()
