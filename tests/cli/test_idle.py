# SPDX-License-Identifier: Apache-2.0
"""An option that can have no effect is refused with the options that it needs."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np
import onnx
import opshift
import pytest
from click.testing import CliRunner
from opshift import option_texts
from opshift.cli.entry import main
from opshift.cli.idle import Dependent
from opshift.zoo import migrate
from text_models import model

VALUES = {
    "--for": "opencv==4.8", "--inputs": "inputs.npz", "--report": "page.html", "--runtime": "none",
    "--runtimes": "opencv==4.8", "--targets": "targets.toml", "--types": "float=float16",
}  # fmt: skip
RELU = "(float[2] x) => (float[2] y) { y = Relu(x) }"
GOALS = {"accepts": ("--opset", "13"), "convert": ("--to", "14", "-o", "out.onnx")}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    onnx.save(model(RELU, 13), "model.onnx")
    np.savez("inputs.npz", x=np.ones(2, np.float32))
    Path("targets.toml").write_text("")
    return tmp_path


def typed(option: click.Option) -> list[str]:
    word = option.opts[0]
    return [word] if option.is_flag else [word, VALUES[word]]


def dependent() -> list[tuple[str, click.Command, Dependent]]:
    """Every option of a command that needs other options of it."""
    group = click.Context(main)
    found = [(name, main.get_command(group, name)) for name in main.list_commands(group)]
    return [
        (name, command, option)
        for name, command in found
        if command is not None
        for option in command.params
        if isinstance(option, Dependent) and option.needed_in(command)
    ]


@pytest.mark.parametrize(
    ("name", "command", "option"), dependent(), ids=lambda one: getattr(one, "name", "")
)
def test_an_option_needs_one_of_the_options_that_its_message_names(name, command, option):
    alone = CliRunner().invoke(main, [name, "model.onnx", *typed(option), *GOALS.get(name, ())])
    assert alone.exit_code == 2
    needed = option.needed_in(command)
    assert all(word in alone.stderr for word in (option.opts[0], *needed))
    for word in needed:
        (other,) = (one for one in command.params if word in one.opts)
        words = ["model.onnx", *typed(option), *typed(other)]
        assert command.make_context(name, words).params  # it is not refused


def test_each_need_is_known_in_a_command():
    present = {
        (option.opts[0], word)
        for _, command, option in dependent()
        for word in option.needed_in(command)
    }
    listed = {
        (f"--{name.replace('_', '-')}", f"--{word}")
        for name, words in option_texts.NEEDS.items()
        for word in words
    }
    assert present == listed


def test_an_idle_option_of_the_settings_is_dropped():
    Path("opshift.toml").write_text(
        'keep-io-types = true\nkeep-unrunnable = true\ninputs = "none.npz"\n'
        'allow-approximate = true\nworkers = 2\ndomain = "com.acme"\n'
    )
    for words in (
        ["convert", "model.onnx", "--to", "14", "-o", "out.onnx", "--check"],
        ["plan", "model.onnx", "--to", "14"],
        ["lowest", "model.onnx"],
        ["targets", "opencv"],
        ["ops", "ai.onnx.ml.Scaler"],
    ):
        assert CliRunner().invoke(main, words).exit_code in (0, 4), words


@pytest.mark.parametrize(
    "words",
    [
        "convert model.onnx -o out.onnx --to 14 --runtime none --verify",
        "convert model.onnx --to 14 --check --dry-run",
        "batch . out --to 14 --engine dask --workers 2",
        "ops Relu --export ai.onnx 13 -o set.onnxopset",
        "ops --export ai.onnx 13 -o set.onnxopset --since 3",
        "ops ai.onnx.ml.Scaler --domain ai.onnx",
        "adapters ai.onnx.ml.Scaler --domain ai.onnx",
        "targets --all",
        "targets opencv --allow-approximate",
        "targets --learn report.json --all",
    ],
)
def test_an_option_that_another_one_replaces_is_refused(words):
    done = CliRunner().invoke(main, words.split())
    assert done.exit_code == 2
    assert "leave" in done.stderr or "give MODEL" in done.stderr


IDLE = [("inputs", "inputs.npz"), ("keep_io_types", True), ("keep_unrunnable", True)]


@pytest.mark.parametrize(("name", "value"), IDLE)
@pytest.mark.parametrize(
    "act",
    [
        lambda **options: opshift.convert_version("model.onnx", 14, **options),
        lambda **options: opshift.convert("model.onnx", 14, **options),
        lambda **options: opshift.convert("model.onnx", opshift.Request.of(14, **options)),
        lambda **options: opshift.convert_file("model.onnx", "out.onnx", 14, **options),
        lambda **options: opshift.plan("model.onnx", 14, **options),
        lambda **options: opshift.lowest_versions("model.onnx", **options),
        lambda **options: migrate(".", None, 14, **options),
    ],
)
def test_an_argument_without_an_effect_is_refused(act, name, value):
    with pytest.raises(opshift.BadTarget, match=f"{name} has no effect here; add "):
        act(**{name: value})


def test_an_argument_with_its_need_is_accepted():
    types = {"float": "double"}
    opshift.convert("model.onnx", 14, types=types, keep_io_types=True, inputs="inputs.npz")
    opshift.convert("model.onnx", "opencv==4.8", keep_unrunnable=True)
