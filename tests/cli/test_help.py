# SPDX-License-Identifier: Apache-2.0
"""Help on the command line: explain, completion and groups of options."""

from __future__ import annotations

import importlib
import os
import pkgutil
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from opshift import Why, codes, terms
from opshift.cli import commands, doors
from opshift.cli import exit_codes as cli
from opshift.cli.entry import main
from opshift.opsets import targets

ROOT = Path(__file__).resolve().parents[2]
NAMES = [info.name for info in pkgutil.iter_modules(commands.__path__)]


def run(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def test_every_reason_and_error_has_a_page():
    import opshift

    errors = {getattr(opshift, name) for name in opshift.__all__ if name[0].isupper()}
    used = {error.code for error in errors if isinstance(error, type) and hasattr(error, "code")}
    used |= {why.name for why in Why}
    assert used <= set(codes.names())


def test_every_error_tells_what_to_do(tmp_path):
    import opshift

    source = tmp_path / "m.onnx"
    source.write_bytes(b"no model")
    for wrong in ({"target": 99}, {"target": 13, "check": "some"}, {"target": 13}):
        with pytest.raises(opshift.OpshiftError) as caught:
            opshift.convert_file(source, tmp_path / "o.onnx", **wrong)
        assert caught.value.cure == codes.page(caught.value.code).cure


@pytest.mark.parametrize("code", codes.names())
def test_a_page_has_a_sentence_a_meaning_and_a_cure(code):
    with terms.called_by(terms.Caller.COMMAND):
        page = codes.page(code)
    for text in (page.sentence, page.meaning, page.cure):
        assert text.endswith((".", "`.")), text
        assert not text.startswith("#")
    assert run("explain", code.lower()).stdout.strip() == page.text.strip()


def test_a_code_without_a_page_is_an_error():
    with pytest.raises(KeyError):
        codes.page("NOPE")


def test_all_codes_are_listed():
    text = run("explain").stdout
    assert all(code in text for code in codes.names())


def test_the_command_a_model_and_the_first_page_lead_to_the_same_doors():
    page = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    alone, model = run(), run(ROOT / "examples" / "attention_opset12.onnx")
    assert (alone.exit_code, model.exit_code) == (2, 0)
    for door in doors.DOORS:
        assert door.question in alone.stderr
        assert door.question in model.stdout
        assert f"[**{door.question}**]({door.guide}.md)" in page
        assert (ROOT / "docs" / f"{door.guide}.md").is_file()
    assert page.count("[**") == len(doors.DOORS)


@pytest.mark.parametrize("door", doors.DOORS, ids=lambda door: door.question)
def test_the_command_of_a_door_exists(door):
    program, *words = door.of("m.onnx").split()
    if program != "opshift":  # a function
        assert program.startswith("opshift.torch.export(")
        return
    command = importlib.import_module(f"{commands.__name__}.{words[0]}").command
    names = {name for parameter in command.params for name in parameter.opts}
    assert {word for word in words if word.startswith("-")} <= names


@pytest.mark.parametrize("name", NAMES)
def test_the_help_of_a_command(name):
    command = importlib.import_module(f"{commands.__name__}.{name}").command
    done = run(name, "--help")
    assert done.exit_code == 0
    assert "Examples:\n  opshift " in done.stdout
    assert "Messages:" in done.stdout
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{name} {parameter.opts} is not explained"


@pytest.mark.parametrize("name", ["", *NAMES])
def test_no_line_of_a_help_ends_inside_a_word(name):
    output = run(*filter(None, [name]), "--help").stdout
    assert "\u2011" not in output
    assert not [line for line in output.splitlines() if line.rstrip().endswith("-")]


def test_the_groups_of_convert():
    output = run("convert", "--help").stdout
    groups = ("Target:", "Permissions:", "Result:", "Look first:", "Messages:")
    places = [output.index(f"\n{group}\n") for group in groups]
    assert places == sorted(places)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_installed_once(shell, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "ZDOTDIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("click.shell_completion.BashComplete._check_version", lambda *_: None)
    for _ in range(2):
        assert run("completion", shell, "--install").exit_code == cli.DONE
    starts = {"bash": ".bashrc", "zsh": ".zshrc"}
    if shell in starts:
        assert (tmp_path / starts[shell]).read_text().count("completion of opshift") == 1
    assert "_OPSHIFT_COMPLETE" in run("completion", shell).stdout


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
@pytest.mark.parametrize("own", ["", "autoload -Uz compinit && compinit -u\n"])
def test_zsh_completes_after_the_installation(own, tmp_path, monkeypatch):
    (tmp_path / ".zshrc").write_text(own)
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "TERM": "dumb"}
    for name in ("XDG_DATA_HOME", "ZDOTDIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run("completion", "zsh", "--install").exit_code == cli.DONE
    done = subprocess.run(
        ["zsh", "-i", "-c", "print $_comps[opshift]"],
        env=env, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.stdout == "_opshift_completion\n", done.stderr
    assert "compdef" not in done.stderr


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_lists_of_completion():
    def offered(words: str) -> set[str]:
        env = {
            **os.environ, "_OPSHIFT_COMPLETE": "bash_complete", "COMP_WORDS": f"opshift {words}",
            "COMP_CWORD": str(len(words.split(" "))),
        }  # fmt: skip
        code = "from opshift.cli.entry import main; main(prog_name='opshift')"
        done = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False
        )
        return {line.partition(",")[2] for line in done.stdout.splitlines()}

    assert {"convert", "check", "completion"} <= offered("c")
    assert "--allow-approximate" in offered("convert --al")
    assert offered("explain NEEDS_S") == {"NEEDS_SHAPE", "NEEDS_STATIC_ATTR"}


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("opshift conv", "convert"),
        ("opshift convert --for onnxruntime==1.10", "1.10"),
        ("opshift convert --for=onnxruntime==1.10", "1.10"),
        ("opshift convert --for=onnxrunt", "onnxruntime"),
        ("opshift convert --to ai.onnx.ml=5", "5"),
        ("opshift convert my\\ model.onnx --ir ke", "keep"),
    ],
)
def test_bash_completes_words_that_it_splits(line, offered, tmp_path, monkeypatch):
    monkeypatch.setattr("click.shell_completion.BashComplete._check_version", lambda *_: None)
    (tmp_path / "completion").write_text(run("completion", "bash").stdout)
    program = tmp_path / "opshift"
    program.write_text(f"#!/bin/sh\nexec '{sys.executable}' -m opshift \"$@\"\n")
    program.chmod(0o755)
    code = (
        "compopt() { :; }; . ./completion; COMP_POINT=${#COMP_LINE};"
        ' _opshift_whole_words opshift; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", code], env={**os.environ, "PATH": path, "COMP_LINE": line},
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == [offered], done.stderr


def completed(words: str) -> list[str]:
    """Returns the completions of the last word of a command line."""
    from click.shell_completion import ShellComplete

    *given, last = words.split(" ")
    completions = ShellComplete(main, {}, "opshift", "").get_completions(given, last)
    return [
        item.value if item.type == "plain" else f"{item.type}:{item.value}" for item in completions
    ]


def test_runtimes_are_completed():
    assert completed("convert --for onnxr") == ["onnxruntime"]
    assert "onnxruntime==1.10" in completed("accepts --for onnxruntime==1.1")
    assert all(targets.find(one) for one in completed("convert --for tensorrt=="))
    assert all(targets.find(one) for one in completed("convert --for OpenVINO=="))
    assert completed("convert --for nothing") == []
    assert completed("convert --for triton") == completed("convert --for triton==") == []
    assert {*completed("convert --for ")} == {row.name for row in targets.table()}
    assert completed("batch --runtimes tensorr") == ["tensorrt"]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("adapters Gather", ["Gather", "GatherElements", "GatherND"]),
        ("ops gathere", ["GatherElements"]),
        ("ops --domain ai.onnx.ml Label", ["LabelEncoder"]),
        ("adapters --domain ai.onnx.m", ["ai.onnx.ml"]),
        ("convert --to la", ["latest"]),
        ("convert --to ai.onnx.m", ["ai.onnx.ml="]),
        ("convert --at-least ai.onnx.ml=5", ["ai.onnx.ml=5"]),
        ("convert --ir ke", ["keep"]),
        ("explain gguf", ["GGUF_FILE"]),
        ("targets tensorr", ["tensorrt"]),
        ("targets my_mod", ["file:my_mod"]),
        ("my_mod", ["file:my_mod"]),
        ("convert my_mod", ["file:my_mod"]),
    ],
)
def test_arguments_are_completed(words, offered):
    assert completed(words) == offered


def test_a_command_behind_a_command_has_its_own_help():
    for words, usage, other in [
        (["ops", "build"], "Usage: opshift ops build [OPTIONS]", "--since"),
        (["ops"], "Usage: opshift ops [OPTIONS] [OP]", "The domain of the vendor"),
    ]:
        shown = CliRunner().invoke(main, [*words, "--help"], prog_name="opshift").output
        assert shown.startswith(usage)
        assert other not in shown
