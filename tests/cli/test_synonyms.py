# SPDX-License-Identifier: Apache-2.0
"""Options that other converters have lead to the option that does the same."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from opshift.cli.entry import main
from opshift.cli.synonyms import SYNONYMS, synonym


def failure(*words: str) -> str:
    done = CliRunner().invoke(main, list(words))
    assert done.exit_code == 2
    return done.stderr.splitlines()[0]


@pytest.mark.parametrize("option", [one for one, meant in SYNONYMS.items() if "--to" in meant])
def test_an_option_of_another_converter_is_answered_with_its_name_here(option):
    assert failure("convert", "m.onnx", option, "13").endswith(f"no option {option}; use --to")


def test_no_synonym_is_an_option_of_its_command():
    for name, command in main.commands.items() if hasattr(main, "commands") else ():
        own = {word for one in command.params for word in one.opts}
        assert not own & SYNONYMS.keys(), name


def test_a_synonym_names_only_options_that_the_command_has():
    assert synonym("--target", ["--for"]) == "--for"
    assert synonym("--target_opset", ["--to"]) == "--to"
    assert synonym("--target", ["--report"]) == ""


def test_a_version_behind_the_earlier_name_of_operator_set_leads_to_the_target():
    assert "give a version with --to 13" in failure("convert", "m.onnx", "--opset", "13")
    assert "give a version with --to com.acme=2" in failure(
        "plan", "m.onnx", "--opset", "com.acme=2"
    )


def test_a_guess_names_each_runtime_once():
    told = failure("convert", "m.onnx", "-o", "o.onnx", "--for", "windowml==1.8")
    guesses = told.partition("did you mean ")[2].partition("?")[0].split(", ")
    assert len(set(guesses)) == len(guesses) > 0
