# SPDX-License-Identifier: Apache-2.0
"""All commands and functions take the same options for a conversion."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from typing import Literal, get_args, get_origin, get_type_hints

import onnx
import pytest
from click.testing import CliRunner
from opshift import (
    BadTarget,
    Refused,
    Request,
    convert_file,
    convert_version,
    lowest_versions,
    plan,
)
from opshift.assumptions import NAMES
from opshift.cli.conversion_options import KEEP_UNRUNNABLE, MARKS, PERMISSIONS, TARGET, _names
from opshift.cli.entry import main
from opshift.convert.request import ConversionOptions
from opshift.verify import verify
from opshift.zoo.migrate import migrate
from text_models import model

NEG = "(float[2] x) => (float[2] y) { y = Neg(x) }"
ERF = "(double[2] x) => (double[2] y) { y = Erf(x) }"
OWN = "(float[2] x) => (float[2] y) { h = acme.Run(x) y = Neg(h) }"
FUNCTIONS = (convert_version, convert_file, plan, lowest_versions, migrate)
OF_THE_TARGET = {"words", "runtime", "at_least", "ir", "minimal"}
VERBS = ("convert", "plan", "batch")


def fields() -> set[str]:
    return {field.name for field in dataclasses.fields(Request)}


def options(verb):
    command = importlib.import_module(f"opshift.cli.commands.{verb}").command
    return {param.name for param in command.params}


def test_the_options_are_the_fields_of_a_request():
    assert set(ConversionOptions.__annotations__) - {"at_least"} == fields() - {
        "target",
        "node_budget",
    }


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_every_function_takes_every_option(function):
    shown = inspect.signature(function).parameters
    assert set(ConversionOptions.__annotations__) <= set(shown)
    assert shown["unknown_domains"].default == "keep"
    assert inspect.Parameter.VAR_KEYWORD not in {one.kind for one in shown.values()}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_takes_every_option(verb):
    assert set(_names(*TARGET, *PERMISSIONS)) <= options(verb)


def test_lowest_takes_what_names_no_result():
    about_a_result = set(_names(*MARKS, KEEP_UNRUNNABLE))
    assert set(_names(*PERMISSIONS)) - about_a_result <= options("lowest")
    assert not about_a_result & options("lowest")
    assert not OF_THE_TARGET & options("lowest")


def test_the_options_of_the_command_are_those_of_python():
    words = {"words": "target", "runtime": "target", "ir": "ir_version"}
    named = {words.get(name, name) for name in _names(*TARGET, *PERMISSIONS)}
    assert named - {"at_least"} == fields() - {"node_budget"}


@pytest.mark.parametrize("function", [convert_version, plan])
def test_a_request_stands_for_a_target_and_options(function):
    asked = Request.of(13, unknown_domains="refuse")
    proto = model(OWN, 14, more=', "acme" : 1')
    if function is plan:
        assert not plan(proto, asked).possible
        assert plan(proto, asked, unknown_domains="keep").possible
        return
    with pytest.raises(Refused, match="13"):
        convert_version(proto, asked)
    assert convert_version(proto, asked, unknown_domains="keep").opset_import[0].version == 13


def test_a_request_does_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Request.of(13).check = "none"


@pytest.mark.parametrize(
    "options",
    [
        {"unknown_domains": "drop"},
        {"ir_version": 2},
        {"check": "some"},
        {"minimal": True},
        {"at_least": 12},
    ],
)
def test_what_cannot_be_meant_is_said_by_every_function(options, tmp_path):
    onnx.save(model(NEG, 13), tmp_path / "m.onnx")
    path = tmp_path / "m.onnx"
    for call in (
        lambda: convert_version(path, 13, **options),
        lambda: convert_file(path, tmp_path / "o.onnx", 13, **options),
        lambda: plan(path, 13, **options),
        lambda: migrate(path, None, 13, **options),
    ):
        with pytest.raises(BadTarget):
            call()


def test_a_plan_has_the_options_of_a_conversion():
    proto = model(ERF, 13)
    assert not plan(proto, 8).possible
    assert plan(proto, 8, allow_approximate=True).possible
    assert plan(proto, minimal=True).possible
    assert plan(model(NEG, 13, ir=10), ir_version=7).possible


@pytest.mark.parametrize(
    "words",
    [
        ["--to", "12", "--ir", "6"],
        ["--for", "onnxruntime==1.10"],
        ["--at-least", "15"],
        ["--minimal"],
        ["--ir", "7", "--drop-metadata", "--prune-imports"],
    ],
)
def test_plan_and_batch_run_with_what_convert_takes(words, tmp_path):
    path = str(tmp_path / "m.onnx")
    onnx.save(model(NEG, 13), path)
    runs = (
        ["convert", path, "--dry-run", *words],
        ["plan", path, *words],
        ["batch", path, "--dry-run", *words],
    )
    for run in runs:
        done = CliRunner().invoke(main, run)
        assert done.exit_code == 0, (run, done.output)


@pytest.mark.parametrize("verb", VERBS)
def test_nothing_wanted_is_said_by_every_verb(verb, tmp_path):
    onnx.save(model(NEG, 13), tmp_path / "m.onnx")
    done = CliRunner().invoke(
        main, [verb, str(tmp_path / "m.onnx"), *["--dry-run"] * (verb != "plan")]
    )
    assert done.exit_code == 2
    assert "names no version and no other goal" in done.output


def literals(hint):
    """Returns the values in a type hint, which an editor completes."""
    if get_origin(hint) is Literal:
        return [word for word in get_args(hint) if isinstance(word, str)]
    return [word for arg in get_args(hint) for word in literals(arg)]


def test_an_editor_completes_the_words_of_an_option():
    found = {name: literals(hint) for name, hint in get_type_hints(ConversionOptions).items()}
    completed = {name: words for name, words in found.items() if words}
    assert {"assume", "check", "ir_version", "unknown_domains"} == set(completed)
    for name, words in completed.items():
        for word in words:
            Request(**{name: [word] if name == "assume" else word})
        with pytest.raises(BadTarget):
            Request(**{name: ["other"] if name == "assume" else "other"})
    assert completed["assume"] == list(NAMES)


@pytest.mark.parametrize(
    ("function", "argument", "option"),
    [
        (convert_file, "external", "convert"),
        (migrate, "external", "batch"),
        (verify, "engine", "verify"),
    ],
)
def test_a_function_completes_the_words_of_its_option(function, argument, option):
    command = importlib.import_module(f"opshift.cli.commands.{option}").command
    names = {f"--{argument}", f"--{argument}-data"}
    (choice,) = (param.type.choices for param in command.params if names & {*param.opts})
    module = vars(importlib.import_module(function.__module__))
    hint = eval(inspect.signature(function).parameters[argument].annotation, dict(module))
    assert set(literals(hint)) == set(choice)
