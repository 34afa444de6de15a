# SPDX-License-Identifier: Apache-2.0
"""Settings: the file that applies, and that a file in a folder cannot run or write anything."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import random
from pathlib import Path
from types import SimpleNamespace

import click
import onnx
import pytest
from click.testing import CliRunner
from onnx import parser
from opshift.cli import commands, settings
from opshift.cli import exit_codes as cli
from opshift.cli.commands import batch, convert
from opshift.cli.entry import main

SOFTMAX = '<ir_version: 7, opset_import: ["" : 12]> g (float[2,3,4] x) => (float[2,3,4] y) { y = Softmax(x) }'
FORBIDDEN = {
    "cluster", "in-place", "install", "journal", "learn", "output", "reduce", "report", "results", "runtime",
    "targets",
}  # fmt: skip
WORDS = {
    "at-least", "dim", "domain", "domains", "export", "for", "inputs", "ir", "model-version",
    "name", "op", "operator-set", "opset", "runtimes", "shape", "shard", "to", "types",
}  # fmt: skip
"""Options that take any text; a review found that none of them runs or writes anything."""
SHAPES = (click.Choice, click.IntRange, click.FloatRange, type(click.INT), type(click.FLOAT))


def run(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    onnx.save(parser.parse_model(SOFTMAX), tmp_path / "m.onnx")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("opshift.toml", 'output-format = "json"\n[convert]\nto = [13]\ncheck = true\n'),
        ("opshift.toml", 'output-format = "json"\n[convert]\nto = 13\ncheck = true\n'),
        ("opshift.toml", 'output-format = "json"\n[convert]\nto = "13"\ncheck = true\n'),
        (
            "pyproject.toml",
            '[tool.opshift]\noutput-format = "json"\nconvert = {to = ["13"], check = true}\n',
        ),
    ],
)
def test_defaults_from_a_file(folder, name, text):
    (folder / name).write_text(text)
    done = run("convert", "m.onnx")
    assert done.exit_code == cli.WOULD_CHANGE, done.stderr
    assert done.stdout.startswith("{")
    assert run("convert", "m.onnx", "--to", "12").exit_code == cli.DONE  # the command line wins


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[convert]\nir = [8]\n", "--ir takes one value, not a list; give one value"),
        ("[convert]\ntoo = 13\n", "convert has no option --too; did you mean to?"),
        ("[convert\n", "cannot be read"),
        ("[convertt]\nto = 13\n", "there is no command 'convertt'; did you mean convert?"),
        ("convert = 1\n", "[convert] is not a table"),
        ("ir = 8.5\n", "8.5"),
        ("ir = {}\n".format("[" * 100_000 + "]" * 100_000), "nested too deeply"),
        ("ir = {}\n".format("9" * 5000), "cannot be read"),
        ("allow-approximate = 2\n", "2"),
        ("#" * (settings.LARGEST + 1), "has more than 1 MiB"),
    ],
)
def test_a_wrong_settings_file_is_an_error(folder, text, sentence):
    (folder / "opshift.toml").write_text(text)
    done = run("convert", "m.onnx", "--to", "13", "--check")
    assert done.exit_code == cli.BAD_INPUT
    assert sentence in done.stderr


def test_a_model_without_a_command_has_the_settings_of_info(folder):
    (folder / "opshift.toml").write_text('output-format = "json"\n')
    assert run("m.onnx").stdout == run("info", "m.onnx").stdout
    assert run("m.onnx").stdout.startswith("{")


@pytest.mark.parametrize("text", ["tool = 3 # opshift\n", "[tool]\nopshift = [1]\n"])
def test_settings_that_are_no_table_are_an_error(folder, text):
    (folder / "pyproject.toml").write_text(text)
    done = run("convert", "m.onnx", "--to", "13", "--check")
    assert done.exit_code == cli.BAD_INPUT
    assert "is not a table" in done.stderr


VALUES = ("true", "-1", "2", "1e400", "''", '"\\u001b[31m"', "1979-05-27", "[]", "[[1]]", "{a = 1}")
"""Values of each type that TOML has."""


@pytest.mark.parametrize("value", VALUES)
def test_no_value_of_a_setting_ends_in_a_bug(folder, value):
    """Each option of two commands is given each kind of value."""
    for name, command in (("convert", convert.command), ("batch", batch.command)):
        for option, parameter in settings._options(command).items():
            if not settings.may_set(option, parameter):
                continue
            (folder / "opshift.toml").write_text(f"[{name}]\n{option} = {value}\n")
            done = run(name, "absent.onnx", *(["out"] if name == "batch" else []))
            assert isinstance(done.exception, SystemExit), (option, done.exception)
            assert done.exit_code == cli.BAD_INPUT, (option, done.output)
            assert "\x1b" not in done.output


@pytest.mark.parametrize("option", settings.ONLY_READ)
def test_settings_name_no_pipe(folder, option):
    """A command would wait for a writer."""
    os.mkfifo(folder / "pipe")
    (folder / "opshift.toml").write_text(f'{option} = "pipe"\n')
    words = ["accepts"] if option == "opset" else ["verify", "m.onnx"]
    done = run(*words, "m.onnx")
    assert done.exit_code == cli.BAD_INPUT
    assert "which is a pipe or a device" in done.stderr


DEEP = {
    "lists": "a = " + "[" * 100_000,
    "key": ".".join("a" * 400_000) + " = 1",
    "quoted key": '"a"' + ' . "a"' * 100_000 + " = 1",
    "table": "[" + ".".join("a" * 400_000) + "]",
    "table in a value": "a = {" + ".".join("a" * 400_000) + " = 1}",
    "number": "a = " + "1" * 5_000,
}
"""Settings that would take hours to read, or exhaust the stack of the parser."""


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
def test_deep_settings_are_an_error_at_once(folder, text):
    (folder / "opshift.toml").write_text(text)
    done = run("info", "m.onnx")
    assert (done.exit_code, done.stderr[:6]) == (cli.BAD_INPUT, "error:")


@pytest.mark.parametrize("line", ['version = "%s"', "version = '%s'", "# don't %s"])
def test_a_text_may_have_any_number_of_dots(folder, line):
    lines = "[tool.other]", line % ("a." * 500), "[tool.opshift]", 'output-format = "json"'
    (folder / "pyproject.toml").write_text("\n".join(lines))
    assert json.loads(run("convert", "m.onnx", "--to", "12", "--check").stdout)


def test_a_long_file_without_settings_is_ignored(folder):
    (folder / "pyproject.toml").write_text("#" * (settings.LARGEST + 1))
    assert run("convert", "m.onnx", "--to", "12", "--check").exit_code == cli.DONE


# -- what settings may name ------------------------------------------------------------------------


def every_option():
    for info in pkgutil.iter_modules(commands.__path__):
        command = importlib.import_module(f"{commands.__name__}.{info.name}").command
        for name, option in settings._options(command).items():
            yield info.name, name, option


def test_an_option_that_may_be_set_shapes_a_result():
    """A new option must be a switch, a choice or a number, or must be reviewed and listed."""
    refused = {name for _, name, option in every_option() if not settings.may_set(name, option)}
    assert refused == FORBIDDEN
    for command, name, option in every_option():
        if settings.may_set(name, option):
            shape = option.is_flag or isinstance(option.type, SHAPES)
            assert shape or name in WORDS, f"{command} --{name}"


@pytest.mark.parametrize("table", [True, False])
@pytest.mark.parametrize(
    ("command", "name"),
    [
        (command, name)
        for command, name, _ in every_option()
        if name in FORBIDDEN and name != command  # the table of a command has its name
    ],
)
def test_settings_name_no_program_and_nothing_that_is_written(folder, command, name, table):
    program = folder / "program"
    program.write_text(f"#!/bin/sh\ntouch {folder / 'ran'}\n")
    program.chmod(0o755)
    value = "true" if name in ("in-place", "install") else f'"{program}"'
    (folder / "opshift.toml").write_text(f"[{command}]\n" * table + f"{name} = {value}\n")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    words = {"completion": ["bash"], "verify": ["m.onnx", "m.onnx"], "ops": ["Relu"]}
    done = run(command, *words.get(command, ["m.onnx"]))
    assert done.exit_code == cli.BAD_INPUT
    assert f"opshift.toml: settings cannot set --{name}" in done.stderr
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


# -- which file counts -----------------------------------------------------------------------------

DEEP = ("a", "b", "c", "d", "e")


def test_the_nearest_file_up_to_the_repository_or_the_home_folder_counts(tmp_path, monkeypatch):
    """Each case is a tree of random files; a search from the top down finds the expected file."""
    rng, counted, stopped = random.Random(0), 0, 0
    for number in range(150):
        folders = [tmp_path / str(number)]
        for name in DEEP:
            folders.append(folders[-1] / name)
        folders[-1].mkdir(parents=True)
        home = rng.choice(folders) if rng.random() < 0.3 else tmp_path
        roots = {folder for folder in folders if rng.random() < 0.15}
        strange, expected = set(), None
        for here in folders:
            if here in roots or here == home:
                stopped += expected is not None
                expected = None  # what lies above is out of reach
            if here in roots:
                (here / rng.choice(settings.ROOTS)).mkdir()
            for name, head in (("pyproject.toml", "[tool.opshift]\n"), ("opshift.toml", "")):
                if rng.random() < 0.3:
                    (here / name).write_text(head + f"seed = {number}\n")
                    if rng.random() < 0.3:
                        strange.add(here / name)
                    else:
                        expected = here / name
            if rng.random() < 0.1 and not (here / "pyproject.toml").exists():
                (here / "pyproject.toml").write_text("[tool.other]\n")
        monkeypatch.chdir(folders[-1])
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.setattr(
            settings, "_is_trusted", lambda path, strange=strange: path not in strange
        )
        found = settings.found()
        assert found.path == expected
        assert set(found.ignored) <= strange
        if expected is not None:
            counted += 1
            assert found.table == {"seed": number}
            nearer = {path for path in strange if len(path.parts) > len(expected.parts)}
            assert nearer <= set(found.ignored)
    assert min(counted, stopped) > 30


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners")
def test_a_file_of_another_user_is_ignored_with_one_line(folder, monkeypatch):
    path = folder / "opshift.toml"
    path.write_text('output-format = "json"\n')
    onnx.save(parser.parse_model(SOFTMAX), folder / "m.onnx")
    words = ("convert", "m.onnx", "--to", "13", "--check")
    assert run(*words).stdout.startswith("{")
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 65534)
    done = run(*words)
    assert done.exit_code == cli.WOULD_CHANGE
    assert not done.stdout.startswith("{")
    assert done.stderr == f"note: {path} belongs to another user; its settings are ignored\n"
    assert "note" not in run(*words, "-q").stderr
    told = run(*words, "--json")
    assert json.loads(told.stdout)
    assert told.stderr == done.stderr


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners")
def test_only_a_file_of_another_user_with_settings_is_named(folder, monkeypatch):
    monkeypatch.setattr(settings, "_is_trusted", lambda path: False)
    (folder / "pyproject.toml").write_text('dependencies = ["opshift"]\n')
    assert settings.found().ignored == ()
    (folder / "pyproject.toml").write_text("[tool.opshift]\n[broken")
    assert settings.found().ignored == (folder / "pyproject.toml",)


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("owner", [0, 5, 6])
def test_the_user_and_root_are_trusted(owner, linked, monkeypatch):
    """The owner of a link is checked like the owner of its file."""

    class System:
        """The owner of a settings file, or of the link that leads to it."""

        @staticmethod
        def geteuid():
            return 5

        @staticmethod
        def stat(path):
            return SimpleNamespace(st_uid=5 if linked else owner)

        @staticmethod
        def lstat(path):
            return SimpleNamespace(st_uid=owner if linked else 5)

    monkeypatch.setattr(settings, "os", System)
    assert settings._is_trusted(Path("opshift.toml")) == (owner != 6)


def test_more_words_say_which_file_counts(folder):
    assert "settings" not in run("convert", "m.onnx", "--to", "13", "--check", "-v").stderr
    (folder / "opshift.toml").write_text("[convert]\nto = 13\n")
    line = f"settings: {folder / 'opshift.toml'}\n"
    assert run("convert", "m.onnx", "--check", "-v").stderr == line
    assert run("convert", "m.onnx", "--check").stderr == ""
