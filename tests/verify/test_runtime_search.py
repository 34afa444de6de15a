# SPDX-License-Identifier: Apache-2.0
"""`convert --runtime` writes only the first result that the runtime runs."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from fake_runtimes import fake_python
from onnx import numpy_helper
from opshift.child_task import Limits
from opshift.cli import exit_codes as cli
from opshift.cli.entry import main
from opshift.verify import runtime_search
from text_models import model

pytestmark = pytest.mark.usefixtures("models_run_here", "forked_runtimes")

ACME = ', "acme" : 1'
SELECT = "(float[2] x, float[2] z) => (float[2] y) { b = Less(x, z) y = Where(b, x, z) }"
MEAN = "(float[2,3] x) => (float[2,1] y) <int64[1] a = {1}> { y = ReduceMean(x, a) }"
MEAN_13 = "(float[2,3] x) => (float[2,1] y) { y = ReduceMean<axes = [1]>(x) }"


@pytest.fixture
def run(tmp_path):
    """Converts a model for a simulated runtime that rejects some models."""

    def run(text, opset, rules, *words, more=""):
        onnx.save(model(text, opset, more=more), tmp_path / "in.onnx")
        python = fake_python(tmp_path, rules)
        where = () if {"--in-place", "--dry-run", "--check"} & {*words} else ("-o", out)
        words = ("convert", tmp_path / "in.onnx", *where, "--runtime", python, *words)
        return CliRunner().invoke(main, [str(word) for word in words])

    out = tmp_path / "out.onnx"
    run.out = out
    return run


def operators(path):
    return [node.op_type for node in onnx.load(path).graph.node]


def opset(path):
    return onnx.load(path).opset_import[0].version


def test_a_result_that_runs_is_the_only_one_that_is_tried(run, tmp_path):
    done = run(MEAN, 18, {"log": str(tmp_path / "log")}, "--for", "onnxruntime==1.15")
    assert done.exit_code == cli.DONE, done.output
    assert "Runs in onnxruntime 1.15.1 of " in done.stdout
    assert "tried" not in done.stdout
    assert opset(run.out) == 18
    assert len((tmp_path / "log").read_text().splitlines()) == 1


def test_the_runtime_is_right_if_the_table_says_that_it_cannot_run_the_result(run):
    text = "(uint64[2] x, uint64[2] z) => (bool[2] y) { y = Greater(x, z) }"
    done = run(text, 17, {}, "--for", "onnxruntime==1.15", "--json")
    assert done.exit_code == cli.DONE, done.output
    document = json.loads(done.stdout)
    assert document["trials"]["runs"]
    assert (document["runtime"]["answer"], document["runtime"]["reasons"]) == ("yes", [])


def test_without_a_name_the_row_is_that_of_the_runtime(run):
    done = run(MEAN, 20, {})
    assert done.exit_code == cli.DONE, done.output
    assert opset(run.out) <= 19  # the highest of onnxruntime 1.15


@pytest.mark.parametrize("rule", ["refuses", "fails", "wrong", "dies"])
def test_another_opset_is_tried(run, rule):
    done = run(MEAN, 18, {"opset 18": rule}, "--for", "onnxruntime==1.15")
    assert done.exit_code == cli.DONE, done.output
    assert opset(run.out) == 17
    assert done.stdout.count("  tried opset ") == 2
    assert f"  tried opset {opset(run.out)}: runs" in done.stdout


def test_another_form_is_tried(run):
    done = run(SELECT, 16, {"Where": "refuses"}, "--for", "onnxruntime==1.15", "--json")
    assert done.exit_code == cli.DONE, done.output
    assert "Where" not in operators(run.out)
    trials = json.loads(done.stdout)["trials"]
    assert trials["runs"]
    last = trials["trials"][-1]
    assert "Where" in last["other_forms"]
    assert last["outcome"] == "runs"


def test_operators_are_written_in_others(run):
    """Each of the two operators fails alone, and both are replaced at once."""
    text = "(float[2,3] x) => (float[2,3] y) { a = Softsign(x) b = Selu(a) y = Relu(b) }"
    rules = {"Softsign": "refuses", "Selu": "wrong"}
    done = run(text, 13, rules, "--for", "onnxruntime==1.15", "--json")
    assert done.exit_code == cli.DONE, done.output
    assert not {"Softsign", "Selu"} & {*operators(run.out)}
    assert "Relu" in operators(run.out)
    last = json.loads(done.stdout)["trials"]["trials"][-1]
    assert (last["without"], last["outcome"]) == (["Selu", "Softsign"], "runs")


def test_weights_in_a_data_file_are_read(tmp_path):
    """Each operator fails alone, with the weights that the model does not contain."""
    text = "(float[2,64] x, float[64] w) => (float[2,64] y) { a = Softsign(x) y = PRelu(a, w) }"
    proto = model(text, 13)
    del proto.graph.input[1]
    proto.graph.initializer.append(numpy_helper.from_array(np.ones(64, np.float32), "w"))
    onnx.save(proto, tmp_path / "in.onnx", save_as_external_data=True, size_threshold=0)
    python = fake_python(tmp_path, {"Softsign": "refuses", "PRelu": "wrong"})
    words = [tmp_path / "in.onnx", "-o", tmp_path / "out.onnx", "--runtime", python]
    done = CliRunner().invoke(main, ["convert", *map(str, words), "--for", "onnxruntime==1.15"])
    assert done.exit_code == cli.DONE, done.output
    assert not {"Softsign", "PRelu"} & {*operators(tmp_path / "out.onnx")}


def test_one_operator_in_other_words_is_enough(run):
    text = "(float[2,3] x) => (float[2,3] y) { a = Softsign(x) y = Selu(a) }"
    done = run(text, 13, {"Selu": "refuses"}, "--for", "onnxruntime==1.15")
    assert done.exit_code == cli.DONE, done.output
    assert "Softsign" in operators(run.out)
    assert "  tried opset 13 with Selu decomposed: runs" in done.stdout


def test_the_cheaper_of_two_results_is_tried_first(run):
    """Below 16 no other operator is needed, so the nodes of the other form cost more."""
    done = run(SELECT, 16, {"opset 16": "refuses"}, "--for", "onnxruntime==1.15")
    assert done.exit_code == cli.DONE, done.output
    assert operators(run.out) == ["Less", "Where"]


def test_functions_are_written_out(run, tmp_path):
    text = "(float[2] x) => (float[2] y) { y = own.Twice(x) }"
    body = '<opset_import: ["" : 15], domain: "own"> Twice (a) => (b) { b = Add(a, a) }'
    rules = {"Twice": "refuses"}
    onnx_text = f'<ir_version: 8, opset_import: ["" : 15, "own" : 1]> g {text} {body}'
    onnx.save(onnx.parser.parse_model(onnx_text), tmp_path / "f.onnx")
    words = ["convert", tmp_path / "f.onnx", "-o", run.out, "--for", "onnxruntime==1.14"]
    words += ["--runtime", fake_python(tmp_path, rules)]
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert done.exit_code == cli.DONE, done.output
    assert operators(run.out) == ["Add"]
    assert "opset 15 without functions: runs" in done.stdout


def test_nothing_is_written_if_nothing_runs(run, tmp_path):
    done = run(
        SELECT,
        16,
        {"Less": "refuses", "Greater": "refuses"},
        "--for",
        "onnxruntime==1.15",
        "--in-place",
    )
    assert done.exit_code == cli.REFUSED
    first, *tried = done.stderr.splitlines()
    assert first.startswith("None of ")
    assert first.endswith(" with equal results. Nothing was written.")
    assert "  tried opset 16: no answer: not loaded: RuntimeError: this operator" in tried[0]
    assert opset(tmp_path / "in.onnx") == 16


def test_the_first_result_is_kept_on_demand(run):
    words = ("--for", "onnxruntime==1.15", "--keep-unrunnable")
    done = run(SELECT, 16, {"Less": "refuses", "Greater": "refuses"}, *words)
    assert done.exit_code == cli.REFUSED, done.output
    assert "\nNone of " in done.stdout
    assert operators(run.out) == ["Less", "Where"]


def test_an_exact_opset_is_the_only_one(run):
    done = run(MEAN, 18, {"opset 17": "refuses"}, "--to", "17")
    assert done.exit_code == cli.REFUSED
    assert done.stderr.count("tried opset 17") == done.stderr.count("tried") > 0


def test_a_run_that_is_too_slow_ends_the_search(run, monkeypatch):
    monkeypatch.setattr(runtime_search, "LIMITS", Limits(seconds=4))
    done = run(MEAN, 18, {"ReduceMean": "sleeps"}, "--for", "onnxruntime==1.15")
    assert done.exit_code == cli.REFUSED
    assert "too slow: not finished within the limit of 4 s" in done.stderr
    assert done.stderr.count("tried") == 1


def test_a_runtime_that_rejects_small_inputs_gets_larger_ones(run):
    text = MEAN.replace("float[2,3]", "float[N,L]").replace("float[2,1]", "float[N,1]")
    done = run(text, 18, {"ReduceMean": "small"}, "--for", "onnxruntime==1.15")
    assert done.exit_code == cli.DONE, done.output
    assert "no answer: not run: ValueError: the window is larger than the image" in done.stdout
    assert "tried opset 18: runs" in done.stdout
    assert f"note: {runtime_search.LARGER}" in done.stdout


def test_inputs_of_the_caller_stay_small(run, tmp_path):
    np.savez(tmp_path / "in.npz", x=np.ones((2, 3), np.float32))
    text = MEAN.replace("float[2,3]", "float[N,L]").replace("float[2,1]", "float[N,1]")
    rules, inputs = {"ReduceMean": "small", "ReduceSum": "small"}, tmp_path / "in.npz"
    done = run(text, 18, rules, "--for", "onnxruntime==1.15", "--inputs", inputs)
    assert done.exit_code == cli.REFUSED, done.output


@pytest.mark.parametrize("option", ["--dry-run", "--check"])
def test_nothing_is_written_without_the_action(run, option, tmp_path):
    done = run(MEAN, 18, {"opset 18": "refuses"}, "--for", "onnxruntime==1.15", option)
    assert done.exit_code == (cli.WOULD_CHANGE if option == "--check" else cli.DONE), done.output
    assert "  tried opset 18: no answer" in done.stdout
    assert opset(tmp_path / "in.onnx") == 18


def test_another_release_than_the_named_one_is_noted(run):
    done = run(MEAN_13, 13, {}, "--for", "onnxruntime==1.10")
    message = "has onnxruntime==1.15.1, but the conversion is for onnxruntime==1.10"
    assert message in done.stdout


def test_minimal_and_a_runtime_exclude_each_other(run):
    done = run(MEAN, 18, {}, "--minimal")
    assert done.exit_code == cli.BAD_INPUT
    assert "--minimal and --runtime both choose the versions of the result" in done.stderr


def test_a_model_that_cannot_be_compared_is_not_written(run):
    done = run("(float[2] x) => (float[2] y) { y = acme.Run(x) }", 13, {}, "--to", "13", more=ACME)
    assert done.exit_code == cli.REFUSED
    assert "the source model has no result to compare with: " in done.stderr


def test_a_refusal_of_every_conversion_is_raised(run):
    text = "(bfloat16[2] x) => (bfloat16[2] y) { y = Abs(x) }"
    done = run(text, 20, {}, "--to", "10")
    assert done.exit_code == cli.REFUSED
    assert done.stderr.startswith("Cannot convert to opset 10: ")


def test_the_page_shows_the_trials(run, tmp_path):
    page = tmp_path / "page.html"
    run(MEAN, 18, {"opset 18": "refuses"}, "--for", "onnxruntime==1.15", "--report", page)
    assert "tried opset 18: no answer" in page.read_text()
