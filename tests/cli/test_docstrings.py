# SPDX-License-Identifier: Apache-2.0
"""The docstring of every public function explains each parameter, and its example runs."""

from __future__ import annotations

import dataclasses
import doctest
import importlib
import inspect
import re
import shutil
from pathlib import Path
from types import FunctionType

import onnx
import opshift
import pytest
from opshift.convert.request import ConversionOptions
from opshift.option_texts import OPTION_TEXTS

pytestmark = pytest.mark.usefixtures("models_run_here")

ROOT = Path(__file__).parents[2]
HOMES = {
    "opshift.convert.api": ["convert_with_report"],
    "opshift.verify": ["verify"],
    "opshift.zoo": ["migrate"],
    "opshift.look.accepts": ["accepts"],
    "opshift.torch": ["export"],
}
FUNCTIONS = [
    getattr(opshift, name)
    for name in opshift.__all__
    if isinstance(getattr(opshift, name), FunctionType)
] + [
    getattr(importlib.import_module(home), name) for home, names in HOMES.items() for name in names
]
NEEDS_TORCH = {"export"}
# Exceptions and lists of values tell all in their sentence; one that holds more has attributes.
CLASSES = [
    found
    for name in opshift.__all__
    if isinstance(found := getattr(opshift, name), type)
    and (dataclasses.is_dataclass(found) or found is opshift.Refused)
]
SECTION = r"\n    {}\n    -+\n(.*?)(?=\n\n    \w+\n    -+\n|\Z)"


def section(function: FunctionType, name: str) -> str:
    match = re.search(SECTION.format(name), function.__doc__ or "", re.S)
    return match[1] if match else ""


def by_name(function: FunctionType) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def test_no_docstring_sends_the_reader_to_another_for_its_parameters():
    for function in FUNCTIONS:
        assert "As for" not in section(function, "Parameters"), by_name(function)


def test_the_functions_are_found():
    names = {function.__name__ for function in FUNCTIONS}
    assert {"convert_file", "plan", "diff", "targets", "migrate"} < names


@pytest.mark.parametrize("function", FUNCTIONS, ids=by_name)
def test_every_parameter_is_explained(function):
    matches = re.findall(
        r"^    (\*{0,2}[\w, ]+?)(?: : .+)?\n        \S", section(function, "Parameters"), re.M
    )
    named = [name.lstrip("*") for entry in matches for name in entry.split(", ")]
    parameters = [*inspect.signature(function).parameters]
    assert sorted(named) == sorted(parameters)


@pytest.mark.parametrize("function", FUNCTIONS, ids=by_name)
def test_every_section_is_there(function):
    first = (function.__doc__ or "").split("\n\n")[0].strip()
    assert re.fullmatch(r"[A-Z][^\n]*[.?]", first), first
    for name in ("Returns", "Raises", "Examples"):
        assert section(function, name), name


@pytest.mark.parametrize("function", FUNCTIONS, ids=by_name)
def test_exceptions_exist(function):
    for line in re.findall(r"^    (\w.*)$", section(function, "Raises"), re.M):
        for name in line.split(", "):
            found = getattr(opshift, name, None) or getattr(__import__("builtins"), name)
            assert issubclass(found, Exception)


@pytest.mark.parametrize(
    "function", [f for f in FUNCTIONS if f.__name__ not in NEEDS_TORCH], ids=by_name
)
def test_the_example_runs(function, tmp_path, monkeypatch):
    shutil.copy(ROOT / "examples" / "attention_opset12.onnx", tmp_path / "model.onnx")
    (tmp_path / "zoo").mkdir()
    shutil.copy(tmp_path / "model.onnx", tmp_path / "zoo" / "model.onnx")
    monkeypatch.chdir(tmp_path)
    tests = doctest.DocTestFinder(recurse=False).find(function, globs={})
    assert tests
    told: list[str] = []
    runner = doctest.DocTestRunner(verbose=False)
    for test in tests:
        assert test.examples
        runner.run(test, out=told.append)
    assert runner.failures == 0, "".join(told)
    onnx.checker.check_model("model.onnx")


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_class_explains_its_attributes_and_shows_an_example(kind, tmp_path, monkeypatch):
    matches = re.findall(r"^    ([\w, ]+) : .+\n        \S", section(kind, "Attributes"), re.M)
    named = {name for entry in matches for name in entry.split(", ")}
    if kind is opshift.Refused:
        assert named == {"refusals", "nearest", "target", "steps", "dead_ends", "runtime"}
    else:
        assert named == {field.name for field in dataclasses.fields(kind)}
    for name, member in vars(kind).items():
        if not name.startswith("_") and isinstance(member, (FunctionType, property)):
            assert name in ("to_json", "page") or member.__doc__, name
    test_the_example_runs(kind, tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: opshift.convert_version("model.onnx", 13, chek="full"), "there is no option 'chek'; did you mean check"),
        (lambda: opshift.convert("model.onnx", opset=13), "give a version as `target`"),
        (lambda: opshift.Request.of(13, drop_meta=True), "there is no option 'drop_meta'; did you mean drop_metadata"),
        (lambda: opshift.plan(3, 13), "model must be a ModelProto or a path, not int"),
        (lambda: opshift.lowest_versions(None), "model must be a ModelProto or a path, not NoneType"),
        (lambda: opshift.check(None), "model must be a ModelProto or a path, not NoneType"),
    ],
)  # fmt: skip
def test_an_argument_of_a_wrong_kind_is_named(call, sentence):
    with pytest.raises(TypeError, match=sentence):
        call()


def test_every_option_has_a_text():
    assert OPTION_TEXTS.keys() == ConversionOptions.__annotations__.keys()
    for option in OPTION_TEXTS.values():
        assert re.fullmatch(r"[A-Z].*\.", option.text)
