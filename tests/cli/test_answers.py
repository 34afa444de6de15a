# SPDX-License-Identifier: Apache-2.0
"""Outputs of commands: the result first, refusals on stderr, exit codes, colours and JSON."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import numpy_helper, parser
from opshift import codes, plugins, terms
from opshift.author import registry
from opshift.cli import exit_codes as cli
from opshift.cli import terminal
from opshift.cli.entry import main
from opshift.report import Report, StepReport, Work

SOFTMAX = '<ir_version: 7, opset_import: ["" : 12]> g (float[2,3,4] x) => (float[2,3,4] y) { y = Softmax(x) }'
ERF = '<ir_version: 8, opset_import: ["" : 13]> g (double[2] x) => (double[2] y) { y = Erf(x) }'

UNARY = [
    "Abs",
    "Acos",
    "Asin",
    "Atan",
    "Ceil",
    "Cos",
    "Cosh",
    "Exp",
    "Floor",
    "Log",
    "Neg",
    "Relu",
    "Sigmoid",
    "Sin",
    "Tan",
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    onnx.save(parser.parse_model(SOFTMAX), tmp_path / "softmax.onnx")
    onnx.save(parser.parse_model(ERF), tmp_path / "erf.onnx")
    (tmp_path / "junk.onnx").write_bytes(b"\x07junk")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words, **env):
    return CliRunner().invoke(main, [str(word) for word in words], env=env)


def test_the_verdict_is_first_then_what_was_written(folder):
    done = run("convert", "softmax.onnx", "-o", "out.onnx", "--to", "13")
    lines = done.stdout.splitlines()
    assert lines[0] == "Converted: opset 12 -> 13."
    assert lines[1].startswith("wrote out.onnx  ")
    assert "nodes (+" in lines[1]
    again = run("convert", "out.onnx", "--in-place", "--to", "13")
    assert again.stdout.startswith("Nothing to do: the model has opset 13.")
    assert "wrote" not in again.stdout


@pytest.mark.parametrize("external", ["keep", "copy", "inline", "one-file"])
def test_the_data_files_of_a_result_are_listed(external, folder):
    proto = parser.parse_model(SOFTMAX)
    proto.graph.initializer.append(numpy_helper.from_array(np.ones(9, np.float32), "w"))
    onnx.external_data_helper.convert_model_to_external_data(proto, True, "w.bin", 0)
    onnx.save(proto, "outside.onnx")
    words = ("outside.onnx", "-o", "out.onnx", "--to", "13", "--external-data", external)
    data = {"inline": None, "one-file": "out.onnx.data"}.get(external, "w.bin")
    shown = [line for line in run("convert", *words).stdout.splitlines() if "data" in line]
    assert shown == ([f"  data files: {data} (36 B)"] if data else [])


@pytest.mark.parametrize(
    ("gives", "shown"),
    [
        (("Softplus", "Tanh", "Mul"), "1 -> 3 nodes (+2)"),
        (("Shape", "Mul", "Shape", "Shape"), "1 -> 4 nodes (+3, mostly Shape)"),
        (("Shape", "Mul"), "1 -> 2 nodes (+1)"),
        (("Mul",), "1 node (1 rewritten)"),
    ],
)
def test_the_growth_names_an_operator_that_is_more_than_half_of_it(gives, shown):
    step = StepReport("", 2, 1, (Work("Old", gives, "adapter", 1),))
    after = len(gives)
    report = Report({"": 2}, {"": 1}, 3, 3, (step,), nodes_before=1, nodes_after=after)
    assert report.growth == shown


@pytest.mark.usefixtures("models_run_here")
@pytest.mark.parametrize("words", [("--check",), ("-o", "out.onnx"), ("--in-place",)])
def test_the_two_sides_of_a_proof_have_different_names(words, folder):
    pytest.importorskip("onnxruntime")
    done = run("convert", "softmax.onnx", "--to", "13", "--verify", *words)
    sides = [
        line.strip() for line in done.stdout.splitlines() if line.startswith(("  A: ", "  B: "))
    ]
    first, second = (side.partition(": ")[2].partition(" on ")[0] for side in sides)
    assert first == "softmax.onnx"
    assert second == ("out.onnx" if "-o" in words else "softmax.onnx (converted)")


def test_a_kept_result_that_does_not_run_is_no_success(folder):
    text = '<ir_version: 8, opset_import: ["" : 11]> g (float[3] x) => (float[k] y) { y = Unique<sorted = 1>(x) }'
    onnx.save(parser.parse_model(text), "unique.onnx")
    words = ("convert", "unique.onnx", "-o", "o.onnx", "--for", "rknn-toolkit2==2.0")
    refused = run(*words)
    assert (refused.exit_code, (folder / "o.onnx").exists()) == (cli.REFUSED, False)
    done = run(*words, "--keep-unrunnable")
    assert (done.exit_code, (folder / "o.onnx").exists()) == (cli.REFUSED, True)
    assert done.stdout.startswith("Converted, but rknn-toolkit2==2.0 cannot run it: ")


def test_exit_codes_tell_would_change_from_impossible(folder):
    assert run("convert", "softmax.onnx", "--to", "13", "--check").exit_code == cli.WOULD_CHANGE
    assert run("convert", "softmax.onnx", "--to", "12", "--check").exit_code == cli.DONE
    assert run("convert", "erf.onnx", "--to", "8", "--check").exit_code == cli.REFUSED
    codes_ = {cli.DONE, cli.REFUSED, cli.BAD_INPUT, cli.BUG, cli.WOULD_CHANGE, cli.INTERRUPTED}
    assert len(codes_) == 6
    output = run("--help").stdout
    assert all(f"{code} " in output for code in codes_)


@pytest.mark.parametrize(
    "words",
    [
        ("convert", "softmax.onnx", "-o", "o.onnx", "--to", "13"),
        ("check", "names.onnx"),
        ("verify", "softmax.onnx", "softmax.onnx"),
        ("adapters", "Clip"),
        ("targets", "onnxruntime"),
        ("info", "names.onnx"),
    ],
)
def test_verbose_prints_more(words, folder):
    nodes = [f"v{i + 1} = {op}(v{i})" for i, op in enumerate(UNARY)]
    text = f"(float[2] v0) => (float[2] v{len(UNARY)}) {{ {' '.join(nodes)} }}"
    proto = parser.parse_model(f'<ir_version: 7, opset_import: ["" : 12]> g {text}')
    for number, node in enumerate(proto.graph.node):
        node.name = f"{number}/node"
    onnx.save(proto, "names.onnx")
    short, long = run(*words).stdout.splitlines(), run(*words, "-v").stdout.splitlines()
    assert len(long) > len(short)
    assert [line for line in short if "-v shows" not in line and line not in long] == []


def test_quiet_never_hides_the_sentence_of_a_refusal(folder):
    for words in (
        ("convert", "erf.onnx", "--to", "8", "-o", "o.onnx"),
        ("plan", "erf.onnx", "--to", "8"),
    ):
        done = run(*words, "-q")
        assert done.exit_code == cli.REFUSED
        assert done.stdout == ""
        (sentence,) = done.stderr.splitlines()
        assert "1 node blocks it. Opset 9 is the lowest that this model can reach." in sentence


def test_quiet_never_hides_that_models_of_a_batch_failed(folder):
    done = run("batch", ".", "--to", "9", "--dry-run", "-q", "--workers", "1")
    assert (done.exit_code, done.stdout) == (cli.REFUSED, "")
    assert done.stderr.splitlines() == ["3 models: 2 ok, 1 invalid."]


def test_a_refusal_says_what_to_do_before_the_detail(folder):
    verdict, cure, node = run("convert", "erf.onnx", "--to", "8", "-o", "o").stderr.splitlines()
    assert verdict.startswith("Cannot convert to opset 8: ")
    with terms.called_by(terms.Caller.COMMAND):
        assert codes.page("APPROXIMATE_ONLY").cure in cure
    assert "opshift explain APPROXIMATE_ONLY" in cure
    assert "Erf 'y' 9->8" in node


@pytest.mark.parametrize(
    ("words", "code", "name"),
    [
        (["convert", "missing.onnx", "--to", "9", "-o", "o"], 2, "FILE_ERROR"),
        (["convert", "junk.onnx", "--to", "9", "-o", "o"], 2, "UNREADABLE_MODEL"),
        (["convert", "erf.onnx", "--for", "nope", "-o", "o"], 2, "BAD_TARGET"),
        (["convert", "erf.onnx", "--nope"], 2, "BAD_USAGE"),
        (["explain", "NEEDS_SHOE"], 2, "BAD_USAGE"),
        (["lowets", "erf.onnx"], 2, "BAD_USAGE"),
    ],
)
@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_every_error_is_json_too(folder, words, code, name, form):
    done = run(*words, "--output-format", form)
    assert done.exit_code == code
    document = json.loads(done.stdout)
    assert (document["kind"], document["code"], document["exit_code"]) == ("error", name, code)
    assert document["cure"] == codes.page(name).cure


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["-v", "convert"],
            "`opshift` has no option -v; write options after the name of a command",
        ),
        (["convert", "--too", "13"], "`opshift convert` has no option --too; did you mean --to"),
        (["check"], "`opshift check` needs the argument IN..."),
        (["explain", "NEEDS_SHOE"], "'NEEDS_SHOE' is not a code; did you mean NEEDS_SHAPE"),
        (["explain", "bad"], "'bad' is not a code; `opshift explain` lists the codes"),
        (["ops", "build"], "the command names no file for the database"),
        (["ops", "-o", "x"], "-o names a file, but the command writes none; give --export"),
        (
            ["ops", "--export", "acme", "1", "-o", "x"],
            "acme 1 cannot be exported: no package describes this domain; ins",
        ),
        (
            ["accepts", "m.onnx", "--model-version", "x.y"],
            "'x.y' is not a version of a model; give",
        ),
        (
            ["batch", ".", "--dry-run", "--to", "9", "--shard", "3/2"],
            "--shard 3/2: 3/2 is not a shard; give I/N",
        ),
        (["check", "."], ".: this is a folder; name a model in it"),
        (["targets", "missing.onnx"], "missing.onnx: No such file or directory"),
        (
            ["check", "sofmax.onnx"],
            "sofmax.onnx: No such file or directory; did you mean softmax.onnx",
        ),
        (["sofmax.onx"], "'sofmax.onx' is neither a command nor a file; did you mean softmax.onnx"),
        (["help"], "'help' is neither a command nor a file; use `opshift --help`"),
        (["--hlep"], "`opshift` has no option --hlep; did you mean --help?"),
        (["convert", "erf.onnx", "--to", "9"], "the command names no file for the result; give"),
        (
            ["convert", "erf.onnx", "--to", "9", "-o", "o", "--in-place"],
            "-o and --in-place are both given; give one of them",
        ),
        (
            ["accepts", "erf.onnx"],
            "the command names no runtime and no versions of another program; give --for",
        ),
        (
            ["accepts", "erf.onnx", "--for", "onnxruntime==1.2", "--ir", "3"],
            "--for and the versions of another program are both given; leave out",
        ),
        (["adapters", "Rezise"], "ai.onnx has no operator 'Rezise'; did you mean Resize"),
        (
            ["adapters", "LabelEncoder"],
            "ai.onnx has no operator 'LabelEncoder'; ai.onnx.ml has it: add --domain ai.onnx.ml",
        ),
        (["ops", "ai.onnx.ml"], "ai.onnx.ml is a domain and not an operator; write --domain ai.on"),
        (["info", "https://a/m.onnx"], "https://a/m.onnx: this is an address and not a file"),
        (["ops", "LabelEncoder"], "ai.onnx has no operator 'LabelEncoder'; ai.onnx.ml has it"),
        (
            ["adapters", "Resize", "--domain", "ai.onx"],
            "domain 'ai.onx' is not known; did you mean ai.onnx, ai.onnx.ml?",
        ),
        (
            ["ops", "Resize", "--domain", "ai.onx"],
            "domain 'ai.onx' is not known; did you mean ai.onnx, ai.onnx.ml?",
        ),
        (["targets", "coreml"], "no versions are known for 'coreml'"),
        (["schema", "erf.onnx"], "`opshift schema` has too many arguments; leave out: erf.onnx"),
        (["completion", "tcsh"], "SHELL: 'tcsh' is not a valid value; give bash, zsh or fish"),
        (["targets", "--targets", "a.toml"], "--targets: File 'a.toml' does not exist; check the"),
        (["check", "erf.onnx", "--results", "a.b"], "a.b: the extension '.b' names no format of"),
        (["ops", "--export", "ai.onnx", "99", "-o", "a"], "ai.onnx 99 cannot be exported: the"),
        (
            ["adapters", "Foo", "--domain", "acme"],
            "domain 'acme' is not known; install the package",
        ),
        (
            ["plan", "erf.onnx", "--to", "12", "--at-least", "13"],
            "ai.onnx has an exact version and a lower bound; give one of them",
        ),
    ],
)
def test_an_error_has_one_cure(folder, words, sentence):
    done = run(*words)
    first, *cures = done.stderr.splitlines()
    assert (done.exit_code, done.stdout) == (cli.BAD_INPUT, "")
    assert first.startswith(f"error: {sentence}")
    expected = "More about this error" if "; " in first else "What to do"
    assert len(cures) == 1
    assert cures[0].strip().startswith(expected)


def test_no_words_show_the_help_as_it_is(folder):
    done = run()
    assert (done.exit_code, done.stdout) == (cli.BAD_INPUT, "")
    assert done.stderr.startswith("Usage: ")
    assert "error" not in done.stderr.splitlines()[0]


def test_a_reader_that_has_seen_enough_is_no_error(folder):
    models = " ".join(["softmax.onnx"] * 40)
    words = f"{sys.executable} -m opshift info {models} | head -1"
    done = subprocess.run(words, shell=True, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("softmax.onnx: opset 12, IR 7")
    assert done.stderr == ""


def test_without_adapters_the_answer_is_what_to_install(folder, monkeypatch):
    monkeypatch.setattr(plugins, "offered", lambda group: [])
    for known in (registry.default, registry.installed):
        known.cache_clear()
    try:
        done = run("convert", "erf.onnx", "--to", "9", "-o", "o")
        listed = run("adapters")
    finally:
        for known in (registry.default, registry.installed):
            known.cache_clear()
    for one in (done, listed):
        assert one.exit_code == cli.BAD_INPUT
        assert one.stderr.startswith("error: no package with adapters is installed")
        assert "install opshift again: pip install" in one.stderr


def test_colours(folder):
    words = ("convert", "erf.onnx", "--to", "8", "-o", "o")
    assert "\x1b[31;1mCannot" in run(*words, "--color", "always").stderr
    assert "\x1b" not in run(*words, "--color", "never").stderr
    assert "\x1b" not in run(*words).stderr  # no terminal


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_the_environment_can_switch_colours_off(env, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert terminal._colours("auto", terminal=True)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert not terminal._colours("auto", terminal=True)
    assert terminal._colours("always", terminal=True)


@pytest.mark.parametrize("mark", ["--stamp", "--bump-model-version"])
def test_a_command_without_a_result_does_not_mark_one(folder, mark):
    done = run("lowest", "softmax.onnx", mark)
    assert done.exit_code == 2
    assert f"`opshift lowest` has no option {mark}" in done.stderr


def test_several_models_and_the_gravest_exit_code(folder):
    done = run("convert", "softmax.onnx", "erf.onnx", "--to", "8", "--check")
    assert done.exit_code == cli.REFUSED
    assert "softmax.onnx:" in done.stdout
    assert "Would change: opset 12 -> 8" in done.stdout
    done = run("check", "softmax.onnx", "junk.onnx", "erf.onnx", "--output-format", "json")
    assert done.exit_code == cli.BAD_INPUT
    found = [(one["model"], one["kind"]) for one in json.loads(done.stdout)["results"]]
    assert found == [("softmax.onnx", "check"), ("junk.onnx", "error"), ("erf.onnx", "check")]
    done = run("lowest", "softmax.onnx", "erf.onnx", "--output-format", "jsonl")
    assert [json.loads(line)["model"] for line in done.stdout.splitlines()] == [
        "softmax.onnx", "erf.onnx"
    ]  # fmt: skip
    assert run("convert", "softmax.onnx", "erf.onnx", "--to", "9", "-o", "x").exit_code == 2


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["convrt", "a"], "convert"),
        (["ops", "Rezise"], "Resize"),
        (["adapters", "Sofmax"], "Softmax"),
        (["ops", "--domain", "ai.onnx.mll"], "ai.onnx.ml"),
        (["convert", "erf.onnx", "--check", "--to", "ai.onx.ml=latest"], "ai.onnx.ml"),
        (["convert", "erf.onnx", "--check", "--for", "onnxruntim==1.10"], "onnxruntime"),
        (["explain", "NEEDS_SHAPES"], "NEEDS_SHAPE"),
        (["convert", "erf.onnx", "--chek", "--to", "13"], "--check"),
        (["check", "erv.onnx"], "erf.onnx"),
        (["check", "erf"], "erf.onnx"),
        (["batch", "erff.onnx", "out", "--to", "13"], "erf.onnx"),
    ],
)
def test_a_mistyped_word_gets_a_suggestion(folder, words, meant):
    done = run(*words)
    assert done.exit_code == cli.BAD_INPUT
    assert meant in done.stderr


def test_files_that_share_only_the_extension_are_not_suggested(folder):
    assert "did you mean" not in run("check", "quantized.onnx").stderr


def test_a_folder_is_not_suggested_for_itself(folder):
    (folder / "models").mkdir()
    for words in (("plan", "models", "--to", "13"), ("verify", "models", "erf.onnx"), ("models",)):
        assert "models: this is a folder; name a model in it" in run(*words).stderr
    assert "did you mean" not in run("accepts", "erf.onnx", "--targets", "models").stderr


@pytest.mark.parametrize("verb", ["ops", "adapters"])
def test_an_operator_may_be_typed_with_its_domain(folder, verb):
    whole = run(verb, "ai.onnx.ml.LabelEncoder")
    assert whole.exit_code == 0
    assert whole.stdout == run(verb, "LabelEncoder", "--domain", "ai.onnx.ml").stdout


def test_the_command_for_an_operator_without_adapters_exists(folder):
    words = run("adapters", "Normalizer", "--domain", "ai.onnx.ml").stderr.split("`")[1].split()
    assert words == ["opshift", "ops", "ai.onnx.ml.Normalizer"]
    assert run(*words[1:]).exit_code == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["plan", "erf.onnx", "--for", "tract==0.2", "--for", "iree"], "--for is given twice"),
        (
            ["convert", "erf.onnx", "-o", "a", "--output", "b", "--to", "9"],
            "--output is given twice",
        ),
        (["convert", "erf.onnx", "-o", "", "--to", "9"], "the name after -o is empty"),
        (["plan", "", "--to", "9"], "the name of a model is empty"),
        (["plan", "erf.onnx", "--to"], "--to needs a value"),
        (
            ["convert", "erf.onnx", "-o", "a.html", "--report", "./a.html", "--to", "9"],
            "-o and --report name one file",
        ),
    ],
)
def test_no_value_of_an_option_is_ignored(folder, words, sentence):
    done = run(*words)
    assert done.exit_code == cli.BAD_INPUT
    assert done.stderr.startswith(f"error: {sentence}")


def test_an_alias_may_set_options_about_messages(folder):
    words = ["plan", "erf.onnx", "--color", "always", "--to", "9", "--color", "never"]
    assert "\x1b" not in run(*words).stdout


def test_a_refusal_without_a_version_names_none(folder):
    assert run("plan", "erf.onnx", "--domains", "com.acme").stdout.startswith("Not possible. 1")


def test_targets_takes_one_model(folder):
    assert "takes one MODEL" in run("targets", "erf.onnx", "softmax.onnx").stderr
    for words in (("13",), ("erf.onnx", "latest")):
        assert "is a version; give names of runtimes" in run("targets", *words).stderr


def test_a_batch_does_not_write_to_the_standard_output(folder):
    assert "give a folder instead of -" in run("batch", "erf.onnx", "-", "--to", "13").stderr
    assert not (folder / "-").exists()


def test_names_reach_no_terminal_unescaped(folder):
    evil = "\x1b[2J\u202e\nPossible: forged"
    model = parser.parse_model(ERF)
    model.graph.node[0].name = evil
    onnx.save(model, "evil.onnx")
    for words in (("plan",), ("convert", "-o", "o"), ("lowest",), ("check",)):
        more = () if words[0] in ("lowest", "check") else ("--to", "8")
        done = run(words[0], "evil.onnx", *words[1:], *more)
        output = done.stdout + done.stderr
        assert not any(mark in output for mark in "\x1b\u202e")
        assert not any(line.startswith("Possible: forged") for line in output.splitlines())
