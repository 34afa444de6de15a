# SPDX-License-Identifier: Apache-2.0
"""The output and the exit codes of the command."""

from __future__ import annotations

import json
import subprocess
import sys

import onnx
import pytest
from click.testing import CliRunner
from opshift.adapter import Builder, Node, Result, adapter
from opshift.cli import exit_codes as cli
from opshift.cli.entry import main
from text_models import model

SOFTMAX = "(float[2,3,4] x) => (float[2,3,4] y) { y = Softmax(x) }"


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "in.onnx"
    onnx.save(model(SOFTMAX), path)
    return path


def run(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def test_convert_writes_the_result_and_reports_it(source, tmp_path):
    done = run("convert", source, "-o", tmp_path / "out.onnx", "--to", "13")
    assert done.exit_code == cli.DONE
    assert onnx.load(tmp_path / "out.onnx").opset_import[0].version == 13
    assert "Softmax x1: Flatten Softmax Shape Reshape" in done.stdout


def test_latest_is_the_newest_that_the_installed_onnx_knows(source, tmp_path):
    assert run("convert", source, "-o", tmp_path / "o", "--to", "latest").exit_code == cli.DONE
    assert onnx.load(tmp_path / "o").opset_import[0].version == onnx.defs.onnx_opset_version()


def test_in_place_replaces_the_file(source):
    assert run("convert", source, "--in-place", "--to", "13").exit_code == cli.DONE
    assert onnx.load(source).opset_import[0].version == 13


@pytest.mark.parametrize("option", ["--check", "--dry-run"])
def test_looking_writes_nothing(source, option, tmp_path):
    before = source.read_bytes()
    done = run("convert", source, "--to", "13", option)
    assert done.exit_code == (cli.WOULD_CHANGE if option == "--check" else cli.DONE)
    assert source.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["in.onnx"]


def test_check_of_what_is_up_to_date(source):
    assert run("convert", source, "--to", "12", "--check").exit_code == cli.DONE


def test_a_refusal_is_on_stderr_and_its_json_on_stdout(tmp_path):
    onnx.save(model("(double[2] x) => (double[2] y) { y = Erf(x) }", 13), tmp_path / "in.onnx")
    no = run("convert", tmp_path / "in.onnx", "-o", tmp_path / "out.onnx", "--to", "8")
    assert no.exit_code == cli.REFUSED
    assert "Erf 'y' 9->8" in no.stderr
    assert no.stdout == ""
    assert not (tmp_path / "out.onnx").exists()
    no = run("convert", tmp_path / "in.onnx", "-o", "x", "--to", "8", "--output-format", "json")
    raw = json.loads(no.stdout)
    assert (raw["kind"], raw["nearest"], raw["refusals"][0]["op"]) == ("refused", {"": 9}, "Erf")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--to", "13"], "names no file for the result"),
        (["--to", "13", "-o", "x", "--in-place"], "-o and --in-place are both given"),
        (["--in-place"], "names no version and no other goal"),
        (["--in-place", "--to", "soon"], "give a number, `latest`, or DOMAIN=NUMBER"),
        (["--in-place", "--to", "13", "--to", "14"], "is given twice for ai.onnx"),
        (["--in-place", "--to", "acme=latest"], "the versions of domain 'acme' are not known"),
        (["--in-place", "--to", "99"], "no known release of onnx has it); give "),
        (["--in-place", "--to", "13", "--ir", "99"], "--ir is 99; give"),
        (["--in-place", "--to", "onnxruntime==1.10"], "--for takes the name of a runtime"),
        (["--format"], "write --output-format json after the name of the command"),
        (
            ["--assume", "no-zero-dim"],
            "--assume: 'no-zero-dim' is not a valid value; did you mean no-zero-dims?",
        ),
        (
            ["--checks", "ful"],
            "--checks: 'ful' is not a valid value; did you mean full",
        ),
        (["-o", "nowhere/x.onnx", "--to", "14"], "there is no folder nowhere; create it"),
    ],
)
def test_bad_usage_exits_2_with_a_sentence(source, words, sentence):
    bad = run("convert", source, *words)
    assert bad.exit_code == cli.BAD_INPUT
    assert sentence in bad.stderr
    assert bad.stdout == ""


def test_unreadable_input_exits_2(tmp_path):
    (tmp_path / "junk").write_bytes(b"no model")
    for path in (tmp_path / "junk", tmp_path / "missing"):
        bad = run("convert", path, "-o", tmp_path / "out", "--to", "13")
        assert bad.exit_code == cli.BAD_INPUT
        assert path.name in bad.stderr
        assert "Traceback" not in bad.stderr


def test_our_bug_exits_3_and_shows_a_traceback_only_on_request(source, with_adapters):
    def broken(node: Node, op: Builder) -> Result:
        """A test's adapter."""
        raise RuntimeError("a slip")

    with_adapters(adapter("Softmax", 12, 13)(broken))
    for words, shown in (([], False), (["-v"], True)):
        bug = run("convert", source, "--in-place", "--to", "13", *words)
        assert bug.exit_code == cli.BUG
        assert "a slip" in bug.stderr
        assert ("Traceback" in bug.stderr) is shown


def test_too_little_memory_exits_2_with_a_sentence(source, with_adapters):
    def huge(node: Node, op: Builder) -> Result:
        """A test's adapter."""
        raise MemoryError("Unable to allocate 8.00 TiB")

    with_adapters(adapter("Softmax", 12, 13)(huge))
    bad = run("convert", source, "--in-place", "--to", "13")
    assert bad.exit_code == cli.BAD_INPUT
    assert "not enough memory: Unable to allocate" in bad.stderr


def test_interrupting_exits_130(source, monkeypatch):
    def interrupted(*arguments, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr("opshift.convert.cheapest_strategy.convert", interrupted)
    assert run("convert", source, "--in-place", "--to", "13").exit_code == cli.INTERRUPTED


def test_plan_prints_a_table_or_json(source):
    text = run("plan", source, "--to", "13")
    assert text.exit_code == cli.DONE
    assert "Softmax" in text.stdout
    assert json.loads(run("plan", source, "--to", "13", "--output-format", "json").stdout)[
        "possible"
    ]
    line = run("plan", source, "--to", "13", "--output-format", "jsonl").stdout
    assert line.count("\n") == 1


def test_plan_of_a_dead_end_exits_1(tmp_path):
    onnx.save(model("(double[2] x) => (double[2] y) { y = Erf(x) }", 13), tmp_path / "in.onnx")
    assert run("plan", tmp_path / "in.onnx", "--to", "8").exit_code == cli.REFUSED


def test_adapters_shows_the_page_of_an_operator():
    page = run("adapters", "Softmax")
    assert "Flatten merges these into one" in page.stdout
    raw = json.loads(run("adapters", "Softmax", "--output-format", "json").stdout)
    assert {(a["start"], a["to"]) for a in raw["operators"]["Softmax"]} >= {(12, 13), (13, 12)}
    assert "- last axis" not in page.stdout
    assert "- no bound: Identity" in run("adapters", "Clip", "-v").stdout
    assert "- unknown rank: equal results" in run("adapters", "Softmax", "-v").stdout  # a case
    assert "Softmax" in run("adapters").stdout
    unknown = run("adapters", "Sofmax")
    assert unknown.exit_code == cli.BAD_INPUT
    assert "ai.onnx has no operator 'Sofmax'" in unknown.stderr


def test_quiet_says_nothing(source, tmp_path):
    assert run("convert", source, "-o", tmp_path / "o", "--to", "13", "-q").stdout == ""


def test_help_needs_no_onnx():
    code = "import sys; from opshift.cli.entry import main; main(['--help'], standalone_mode=False); print('onnx' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("False")
