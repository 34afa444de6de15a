# SPDX-License-Identifier: Apache-2.0
"""A message names the option of opshift if a user types the option of another converter."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner
from opshift.cli.entry import main
from opshift.cli.synonyms import COMMANDS, REPLACING, SYNONYMS, synonym


def failure(*words: str) -> str:
    done = CliRunner().invoke(main, list(words))
    assert done.exit_code == 2
    return done.stderr.splitlines()[0]


@pytest.mark.parametrize(
    "option", [one for one, meant in SYNONYMS.items() if "--to" in meant and one != "--opset"]
)
def test_an_option_of_another_converter_is_answered_with_its_name_here(option):
    assert failure("convert", "m.onnx", option, "13").endswith(f"no option {option}; use --to")


@pytest.mark.parametrize("option", sorted(REPLACING))
def test_an_option_to_replace_files_is_never_answered_with_in_place_alone(option):
    says = failure("convert", "m.onnx", "--to", "13", "-o", "n.onnx", option)
    assert "leave it out, because an existing result is replaced" in says
    assert "leave it out" in failure("batch", "old", "new", "--to", "13", option)
    assert "--in-place" not in failure("check", "m.onnx", option)


@pytest.mark.parametrize("option", ["--to", "--target-opset", "--opset-version"])
def test_accepts_takes_the_version_of_another_program_as_opset(option):
    assert failure("accepts", "m.onnx", option, "13").endswith(f"no option {option}; use --opset")


def test_each_meaning_is_an_option_or_argument_of_a_command():
    context = click.Context(main)
    known = set()
    for name in main.list_commands(context):
        for param in main.get_command(context, name).params:
            known |= {*param.opts, param.human_readable_name.strip("[].")}
    assert {text.partition(" ")[0] for meant in SYNONYMS.values() for text in meant} <= known


@pytest.mark.parametrize("word", ["onnxruntime", "onnxruntime==1.10"])
def test_a_runtime_in_place_of_an_interpreter_leads_to_the_target(word):
    says = failure("convert", "m.onnx", "-o", "n.onnx", "--to", "13", "--runtime", word)
    assert says.endswith(f"takes a Python interpreter; write --for {word}")


def test_a_synonym_names_only_options_that_the_command_has():
    assert synonym("--target", ["--for"]) == "--for"
    assert synonym("--target_opset", ["--to"]) == "--to"
    assert synonym("--target", ["--report"]) == ""


def test_a_version_behind_the_earlier_name_of_operator_set_leads_to_the_target():
    assert "give a version with --to 13" in failure("convert", "m.onnx", "--opset", "13")
    assert "give a version with --to com.acme=2" in failure(
        "plan", "m.onnx", "--opset", "com.acme=2"
    )


def test_only_a_command_with_a_target_names_its_option():
    assert failure("targets", "--opset", "13").endswith("; give the path of a document")


@pytest.mark.parametrize("option", ["--types", "--shape", "--dim", "--keep-io-types"])
def test_each_command_takes_a_change_of_the_model_or_names_the_commands_that_do(option):
    context = click.Context(main)
    commands = {name: main.get_command(context, name) for name in main.list_commands(context)}
    takes = [name for name, one in commands.items() if any(option in p.opts for p in one.params)]
    assert {"convert", "plan", "targets", "lowest", "batch"} <= set(takes)
    for name in commands.keys() - set(takes):
        message = failure(name, "a.onnx", option, "x")
        assert message.endswith(
            f"has no option {option}; these commands have it: {', '.join(takes)}"
        ), message


def test_an_option_of_another_command_is_not_taken_for_a_mistyped_one():
    message = failure("lowest", "a.onnx", "--targets", "row.toml")
    assert "no option --targets; these commands have it: accepts, audit, batch, convert" in message


def test_each_command_that_takes_a_runtime_takes_a_file_of_runtimes():
    context = click.Context(main)
    for name in main.list_commands(context):
        options = {
            word for parameter in main.get_command(context, name).params for word in parameter.opts
        }
        assert "--for" not in options or "--targets" in options, name


def test_the_place_of_the_result_may_be_an_argument():
    message = failure("batch", "models", "converted", "--out", "x")
    assert message.endswith("has no option --out; give it as the argument DST")


def test_a_guess_names_no_deprecated_option_and_ignores_dashes():
    assert failure("convert", "m.onnx", "--opst", "3").endswith("no option --opst; use --to")
    assert failure("convert", "m.onnx", "--fp-16").endswith(
        "no option --fp-16; use --types float=float16"
    )
    assert failure("convert", "m.onnx", "--verfy").endswith("did you mean --verify?")


def test_a_guess_names_each_runtime_once():
    message = failure("convert", "m.onnx", "-o", "o.onnx", "--for", "windowml==1.8")
    guesses = message.partition("did you mean ")[2].partition("?")[0].split(", ")
    assert len(set(guesses)) == len(guesses) > 0


@pytest.mark.parametrize("word", COMMANDS)
def test_a_command_of_another_tool_is_answered_with_a_command_that_exists(word):
    name, *options = COMMANDS[word].split()
    context = click.Context(main)
    assert failure(word, "m.onnx").endswith(f"; use `opshift {COMMANDS[word]}`")
    command = main if name.startswith("--") else main.get_command(context, name)
    opts = {opt for param in command.get_params(context) for opt in param.opts}
    assert {word for word in (name, *options) if word.startswith("--")} <= opts


@pytest.mark.parametrize(
    ("words", "cure"),
    [
        (("convert", "m.onnx", "13", "-o", "x.onnx"), "13 is not a file; write --to 13"),
        (("convert", "m.onnx", "tract==0.2", "-o", "x"), "write --for tract==0.2"),
        (("plan", "m.onnx", "latest"), "too many arguments; write --to latest"),
        (("accepts", "m.onnx", "13"), "13 is not a file; write --opset 13"),
        (("accepts", "m.onnx", "--for", "13"), "13 is not a runtime; write --opset 13"),
        (("accepts", "m.onnx", "tract==0.2"), "write --for tract==0.2"),
        (
            ("convert", "m.onnx", "--for", "tract", "0.2"),
            "write the release of a runtime as NAME==0.2",
        ),
        (("convert", "m.onnx", "new.onnx", "--to", "9"), "give -o new.onnx or --in-place"),
    ],
)
def test_a_target_or_a_result_without_its_option_is_answered_with_the_option(words, cure):
    assert failure(*words).endswith(cure)


def test_a_file_whose_name_is_a_number_is_a_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "13").write_bytes(b"")
    assert "write --to" not in failure("convert", "13", "--to", "9", "-o", "x.onnx")
    assert failure("check", "14").startswith("error: 14: No such file")
